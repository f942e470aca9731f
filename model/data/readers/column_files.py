"""Reads sentences with one tag per word, from column files (a blank line between sentences) or from the hub."""

import re
from collections import Counter
from typing import Any

from model.config.data import TaggingConfig
from model.data.examples import Examples
from model.data.readers.hub import read_splits
from model.data.readers.parts import WHOLE, Gathered, given_places
from model.data.readers.text_files import Columns, as_text, read_text
from model.errors import DataError

# Column names that indicate words and tags, in lower case.
WORD_NAMES = ("form", "word", "words", "token", "tokens", "text", "lemma")
TAG_NAMES = ("upos", "xpos", "pos", "pos_tag", "tag", "tags", "label", "labels", "ner", "ner_tag", "lemma", "deprel")

# The first field of lines of CoNLL-U that are no words: multiword tokens, such as 1-2, and empty nodes, such as 8.1.
_NO_WORD = re.compile(r"\d+[-.]\d+")
_CONLLU_COLUMNS = 10
_MOST_TAGS = 5  # the most tags that the note about the tags names


def read_tagged_sentences(config: TaggingConfig) -> Examples:
    """Read the sentences; an example is `{"words": [...], "tags": [...]}`, with one tag per word.

    In a column file, lines that begin with # and have no tab are comments (CoNLL-U). Multiword tokens and empty nodes
    of CoNLL-U are left out. A header is left out; see `_remove_header`.

    Raises:
        DataError: the data is not valid, or all words have the same tag.
        DataError: a column file holds 1, 2, 3, ... instead of words, or lacks empty lines between sentences.
    """
    gathered = Gathered()
    if config.format == "hub":
        columns = Columns({"word": config.word_column, "tag": config.tag_column}, {"word": (), "tag": ()})
        for part, table in read_splits(config, columns, _as_list):
            sentences = [_sentence(row, table.file.path, number) for number, row in enumerate(table.rows)]
            gathered.add(part, sentences, table.file, licence=table.licence)
    else:
        for part, path in given_places(config).items():
            text, file = read_text(path, f"data.{part}")
            sentences = _sentences(text, path, config)
            header = _remove_header(sentences)
            if header is not None:
                gathered.notes.append(f"data.{part}: the first line ({header[:40]!r}) is read as a header")
            _refuse_too_few(sentences, part, path, config)
            _refuse_numbers(sentences, path, config)
            gathered.add(part, sentences, file)
    tags = Counter(tag for item in gathered.items for tag in item["tags"])
    if len(tags) < 2:
        raise DataError(
            f"{gathered.files[0].path}: must have at least two different tags, but every tag is {min(tags)!r}; check "
            "data.tag_column"
        )
    shares = ", ".join(f"{tag} {count / tags.total():.0%}" for tag, count in tags.most_common(_MOST_TAGS))
    gathered.notes.append(
        f"data.tag_column={config.tag_column}: the words have {len(tags)} tags; shares of the most common tags: "
        f"{shares}"
    )
    return gathered.examples()


def _sentences(text: str, path: str, config: TaggingConfig) -> list[dict[str, Any]]:
    sentences: list[dict[str, Any]] = []
    is_open = False
    for line, content in enumerate(text.split("\n"), start=1):
        content = content.removesuffix("\r")
        if not content.strip():
            is_open = False
        elif not content.startswith("#") or "\t" in content:
            fields = content.split("\t")
            if len(fields) == _CONLLU_COLUMNS and _NO_WORD.fullmatch(fields[0]) and config.word_column != 0:
                continue
            word, tag = _word_and_tag(fields, path, line, config)
            if not is_open:
                sentences.append({"words": [], "tags": []})
                is_open = True
            sentences[-1]["words"].append(word)
            sentences[-1]["tags"].append(tag)
    return sentences


def _remove_header(sentences: list[dict[str, Any]]) -> str | None:
    """Remove a header from the sentences, and return its word and tag as one text; None = no header.

    The first line is a header if its word is in WORD_NAMES, its tag is in TAG_NAMES, and no other word has this tag.
    Letter case does not matter.
    """
    if not sentences:
        return None
    words, tags = sentences[0]["words"], sentences[0]["tags"]
    word, tag = words[0], tags[0]
    if word.strip(" #").lower() not in WORD_NAMES or tag.lower() not in TAG_NAMES:
        return None
    if sum(sentence["tags"].count(tag) for sentence in sentences) > 1:
        return None
    del words[0], tags[0]
    if not words:
        del sentences[0]
    return f"{word} {tag}"


def _refuse_too_few(sentences: list[dict[str, Any]], part: str, path: str, config: TaggingConfig) -> None:
    """Raise DataError if there is no sentence, or if empty lines between sentences seem to be missing.

    Empty lines seem to be missing if the split `part` has only one sentence and one of these conditions holds:

    - The split is train or WHOLE.
    - The sentence has more than `data.max_length` words.
    """
    if not sentences:
        raise DataError(f"{path}: holds no sentence; must hold at least one line with a word and a tag")
    size = len(sentences[0]["words"])
    if len(sentences) == 1 and (part in (WHOLE, "train") or size > config.max_length):
        raise DataError(
            f"{path}: has only one sentence, of {size} word{'s' * (size != 1)}; separate sentences by empty lines"
        )


def _refuse_numbers(sentences: list[dict[str, Any]], path: str, config: TaggingConfig) -> None:
    """Raise DataError if the words of every sentence are 1, 2, 3, ..., as in the first column of CoNLL-U."""
    for sentence in sentences:
        numbers = [word for word in sentence["words"] if not _NO_WORD.fullmatch(word)]
        if numbers != [str(number) for number in range(1, len(numbers) + 1)]:
            return
    raise DataError(
        f"{path}: data.word_column={config.word_column} must be the column of the words, but holds their numbers "
        "(1, 2, 3, ...); for CoNLL-U, set data.word_column=1 data.tag_column=3"
    )


def _word_and_tag(fields: list[str], path: str, line: int, config: TaggingConfig) -> tuple[str, str]:
    assert isinstance(config.word_column, int)  # the configuration checks both columns
    assert isinstance(config.tag_column, int)
    needed = max(config.word_column, config.tag_column) + 1
    if len(fields) < needed:
        raise DataError(
            f"{path}:{line}: has {len(fields)} column{'s' * (len(fields) != 1)} separated by tabs; must have at least "
            f"{needed} for data.word_column={config.word_column} and data.tag_column={config.tag_column}"
        )
    word, tag = fields[config.word_column].strip(), fields[config.tag_column].strip()
    if not word or not tag:
        raise DataError(f"{path}:{line}: the {'tag' if word else 'word'} is empty; fill it in or delete the line")
    return word, tag


def _as_list(value: Any, where: str, name: str, _role: str) -> list[str]:
    if not isinstance(value, list) or not value:
        raise DataError(f"{where}: {name!r} is {str(value)[:40]}; must be a list with one text per word")
    return [as_text(each, where, name).strip() for each in value]


def _sentence(row: dict[str, list[str]], place: str, number: int) -> dict[str, Any]:
    words, tags = row["word"], row["tag"]
    if len(words) != len(tags):
        raise DataError(
            f"{place}: row {number}: has {len(words)} words, but {len(tags)} tags; must have one tag per word"
        )
    return {"words": words, "tags": tags}
