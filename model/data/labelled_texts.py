"""Texts with one label each, from one file or from a file per part."""

from typing import Any

from model.data.config import FilesConfig, TextClassificationConfig
from model.data.examples import Examples
from model.data.text_files import Columns, read_table
from model.errors import DataError

TEXT_NAMES = ("text", "sentence")
LABEL_NAMES = ("label", "class")
PARTS = ("train", "validation", "test")


def read_labelled_texts(config: TextClassificationConfig) -> Examples:
    """An example is `{"text": ..., "label": ...}`.

    Raises:
        DataError: a fault in the files, or fewer than two classes.
    """
    columns = Columns(
        {"text": config.text_column, "label": config.label_column}, {"text": TEXT_NAMES, "label": LABEL_NAMES}
    )
    files, items, parts = [], [], {}
    for part, path in given_files(config).items():
        table = read_table(path, f"data.{part}", config.format, config.header, columns)
        files.append(table.file)
        items += [row for _, row in table.rows]
        parts[part] = len(table.rows)
    labels = [item["label"] for item in items]
    if len(set(labels)) < 2:
        raise DataError(
            f"{files[0].path}: every label is {labels[0]!r}; must hold two classes or more: is data.label_column right?"
        )
    return Examples(
        source=", ".join(file.path for file in files),
        licence=None,
        files=tuple(files),
        items=items,
        labels=labels,
        parts=None if "path" in parts else parts,
    )


def given_files(config: FilesConfig) -> dict[str, Any]:
    """The part (or `path`) -> its file, in the order in which examples are numbered."""
    if config.path is not None:
        return {"path": config.path}
    return {part: getattr(config, part) for part in PARTS if getattr(config, part) is not None}
