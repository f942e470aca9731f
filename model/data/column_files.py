"""Sentences with one tag per word, from column files: a word per line, a blank line between sentences."""

from typing import Any

from model.data.config import TaggingConfig
from model.data.examples import Examples, File
from model.data.labelled_texts import given_files
from model.data.text_files import read_text
from model.errors import DataError


def read_tagged_sentences(config: TaggingConfig) -> Examples:
    """An example is `{"words": [...], "tags": [...]}`, as many tags as words.

    Lines that begin with # and have no tab are comments (CoNLL-U).

    Raises:
        DataError: a fault in the files, or only one tag.
    """
    files: list[File] = []
    items: list[dict[str, Any]] = []
    parts: dict[str, int] = {}
    for part, path in given_files(config).items():
        text, file = read_text(path, f"data.{part}")
        sentences = _sentences(text, path, config)
        if not sentences:
            raise DataError(f"{path}: no sentence; must hold at least one line of words and tags")
        files.append(file)
        items += sentences
        parts[part] = len(sentences)
    tags = {tag for item in items for tag in item["tags"]}
    if len(tags) < 2:
        raise DataError(f"{files[0].path}: every tag is {tags.pop()!r}; is data.tag_column right?")
    return Examples(
        source=", ".join(file.path for file in files),
        licence=None,
        files=tuple(files),
        items=items,
        labels=None,
        parts=None if "path" in parts else parts,
    )


def _sentences(text: str, path: str, config: TaggingConfig) -> list[dict[str, Any]]:
    sentences: list[dict[str, Any]] = []
    is_open = False
    for line, content in enumerate(text.split("\n"), start=1):
        content = content.removesuffix("\r")
        if not content.strip():
            is_open = False
        elif not content.startswith("#") or "\t" in content:
            word, tag = _word_and_tag(content.split("\t"), path, line, config)
            if not is_open:
                sentences.append({"words": [], "tags": []})
                is_open = True
            sentences[-1]["words"].append(word)
            sentences[-1]["tags"].append(tag)
    return sentences


def _word_and_tag(fields: list[str], path: str, line: int, config: TaggingConfig) -> tuple[str, str]:
    needed = max(config.word_column, config.tag_column) + 1
    if len(fields) < needed:
        raise DataError(
            f"{path}:{line}: {len(fields)} column{'s' * (len(fields) != 1)} between tabs; must be at least {needed}, "
            f"given data.word_column={config.word_column} and data.tag_column={config.tag_column}"
        )
    word, tag = fields[config.word_column], fields[config.tag_column].strip()
    if not word.strip() or not tag:
        raise DataError(
            f"{path}:{line}: the {'word' if not word.strip() else 'tag'} is empty; fill it in or delete the line"
        )
    return word, tag
