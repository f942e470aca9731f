"""The table of readers, by data.name."""

from collections.abc import Callable
from typing import Any

from model.config.data import DataConfig
from model.data.examples import Examples
from model.data.readers.column_files import read_tagged_sentences
from model.data.readers.digits import read_digits
from model.data.readers.labelled_texts import read_labelled_texts
from model.data.readers.plain_text import read_plain_text
from model.data.readers.sequence_pairs import generate_pairs, read_translation

READERS: dict[str, Callable[[Any], Examples]] = {
    "digits": read_digits,
    "text_classification": read_labelled_texts,
    "tagging": read_tagged_sentences,
    "language_modelling": read_plain_text,
    "translation": read_translation,
    "generated": generate_pairs,
}


def read_examples(config: DataConfig) -> Examples:
    """Return all examples of the configured data.

    Raises:
        DataError: the data cannot be used; the message names the file or the configuration key.
    """
    return READERS[config.name](config)
