"""Reads running text from plain files or the hub. An example is one line; a split consists of consecutive lines."""

from collections.abc import Iterator
from typing import Any

from model.config.data import LanguageModellingConfig
from model.data.examples import Examples, File
from model.data.readers.hub import read_splits
from model.data.readers.parts import WHOLE, Gathered, given_places
from model.data.readers.text_files import TEXT_NAMES, Columns, read_text
from model.data.surrogates import refuse_surrogates
from model.errors import DataError


def read_plain_text(config: LanguageModellingConfig) -> Examples:
    """Read the lines in order; an example is `{"text": one line with its line break}`.

    If the training text has no line break at its end, add a line break, because a training may join the training text
    with the validation text.

    The text of `data.path` is cut into a training, a validation and a test split, in this order, unless `data.path`
    names a data set with predefined splits. A split ends at the first line break after its share of the characters.
    There is no test split if `data.test_fraction` is 0, or if the predefined splits do not include one. Lines are not
    shuffled, because shuffling would put similar neighbouring lines into different splits.

    Raises:
        DataError: the data is not valid, or a split is empty.
    """
    gathered = Gathered()
    for part, lines, file, licence in _texts(config):
        gathered.add(part, [{"text": line} for line in lines], file, licence=licence)
        if part == WHOLE:
            gathered.sizes = _cut(lines, config, file.path)
    # Lines torn out of the training text would be no test of running text.
    gathered.sizes.setdefault("test", 0)
    return gathered.examples()


def _texts(config: LanguageModellingConfig) -> Iterator[tuple[str, list[str], File, str | None]]:
    """Yield the name of each split (WHOLE = data without predefined splits), its lines, its file and its licence."""
    if config.format == "hub":
        columns = Columns({"text": config.text_column}, {"text": TEXT_NAMES})
        for part, table in read_splits(config, columns, _ended):
            text = "".join(row["text"] for row in table.rows)
            if not text.strip():
                raise DataError(f"{table.file.path}: every row is empty; at least one row must hold text")
            yield part, text.splitlines(keepends=True), table.file, table.licence
        return
    for part, path in given_places(config).items():
        text, file = read_text(path, f"data.{part}")
        if part == "train" and not text.endswith("\n"):
            text += "\n"
        yield part, text.splitlines(keepends=True), file, None


def _ended(value: Any, where: str, name: str, _role: str) -> str:
    """Return the text of a row; the returned text always ends with a line break."""
    if not isinstance(value, str):
        raise DataError(f"{where}: {name!r} is {str(value)[:40]}; must be a text")
    refuse_surrogates(value, f"{where}: {name!r}")
    return value if value.endswith("\n") else value + "\n"


def _cut(lines: list[str], config: LanguageModellingConfig, path: str) -> dict[str, int]:
    """Return the number of lines of each split."""
    shares = {"train": 1 - config.validation_fraction - config.test_fraction, "validation": config.validation_fraction}
    if config.test_fraction:
        shares["test"] = config.test_fraction
    total, parts, place, line, end = sum(map(len, lines)), {}, 0, 0, 0.0
    for part, share in shares.items():
        end, first = end + share * total, line
        is_last = part == list(shares)[-1]
        while line < len(lines) and (is_last or place < end - 1e-6):
            place += len(lines[line])
            line += 1
        parts[part] = line - first
        if not parts[part]:
            raise DataError(
                f"{path}: has only {len(lines)} line{'s' * (len(lines) != 1)}, so that no line is left for the {part} "
                "split; give a longer text, change data.validation_fraction or data.test_fraction, or give one file "
                "per split"
            )
    return parts
