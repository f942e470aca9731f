"""Reads tables of texts, one table per split, from files or from a data set of the Hugging Face hub."""

from collections.abc import Iterator

from model.config.data import TextClassificationConfig
from model.config.pairs import TranslationConfig
from model.data.readers.hub import read_splits
from model.data.readers.parts import given_places
from model.data.readers.text_files import Columns, Table, as_text, read_table


def read_tables(config: TextClassificationConfig | TranslationConfig, columns: Columns) -> Iterator[tuple[str, Table]]:
    """Yield the name of each split and its rows, in the order train, validation, test.

    Without predefined splits, yield all rows under the name WHOLE.

    Raises:
        DataError: the rows are not valid.
    """
    if config.format == "hub":
        yield from read_splits(config, columns, as_text)
        return
    first: Table | None = None
    for part, path in given_places(config).items():
        table = read_table(path, f"data.{part}", config.format, config.header, columns, first)
        first = first or table
        yield part, table
