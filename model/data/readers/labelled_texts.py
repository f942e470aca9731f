"""Reads texts with one label each, from files or from the hub."""

from model.config.data import TextClassificationConfig
from model.data.examples import Examples
from model.data.readers.parts import WHOLE, Gathered
from model.data.readers.tables import read_tables
from model.data.readers.text_files import TEXT_NAMES, Columns
from model.errors import DataError

LABEL_NAMES = ("label", "class")


def read_labelled_texts(config: TextClassificationConfig) -> Examples:
    """Read the texts; an example is `{"text": ..., "label": ...}`.

    Raises:
        DataError: the data is not valid, there are fewer than two classes, or another split has a label that the
            training split lacks.
    """
    columns = Columns(
        {"text": config.text_column, "label": config.label_column}, {"text": TEXT_NAMES, "label": LABEL_NAMES}
    )
    gathered = Gathered()
    for part, table in read_tables(config, columns):
        gathered.add_table(part, table)
    labels = [item["label"] for item in gathered.items]
    if len(set(labels)) < 2:
        raise DataError(
            f"{gathered.files[0].path}: must have at least two classes, but every label is {labels[0]!r}; check "
            "data.label_column"
        )
    if WHOLE not in gathered.sizes:
        _refuse_unseen(gathered)
    return gathered.examples(labels)


def _refuse_unseen(gathered: Gathered) -> None:
    """Raise DataError if another split has a label that the training split lacks."""
    known = {item["label"] for item in gathered.of_part("train")}
    for part in gathered.sizes:
        unseen = sorted({item["label"] for item in gathered.of_part(part)} - known)
        if unseen:
            raise DataError(
                f"data.{part}: the label {unseen[0]!r} is not in data.train, which has the labels (at most ten listed) "
                f"{', '.join(repr(label) for label in sorted(known)[:10])}; move examples with this label to "
                "data.train, or correct the labels"
            )
