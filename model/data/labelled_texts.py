"""Texts with one label each, from one file or from a file per part."""

from model.data.config import TextClassificationConfig
from model.data.examples import Examples
from model.data.parts import Gathered
from model.data.tables import read_tables
from model.data.text_files import TEXT_NAMES, Columns
from model.errors import DataError

LABEL_NAMES = ("label", "class")


def read_labelled_texts(config: TextClassificationConfig) -> Examples:
    """An example is `{"text": ..., "label": ...}`.

    Raises:
        DataError: a fault in the files, or fewer than two classes.
    """
    columns = Columns(
        {"text": config.text_column, "label": config.label_column}, {"text": TEXT_NAMES, "label": LABEL_NAMES}
    )
    gathered = Gathered()
    for part, table in read_tables(config, columns):
        gathered.add(part, table.rows, table.file, licence=table.licence)
    labels = [item["label"] for item in gathered.items]
    if len(set(labels)) < 2:
        raise DataError(
            f"{gathered.files[0].path}: every label is {labels[0]!r}; must hold two classes or more: "
            "is data.label_column right?"
        )
    return gathered.examples(labels)
