"""The form of trials.csv: its text, and how it is read back: the points of its rows, and what they scored."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hpo.dimensions import Choices, Dimension, Range, Value, allows
from hpo.errors import StudyError
from hpo.space import Point, Space

Row = Mapping[str, str]

# The columns that differ from one run of a study to the next.
TIMES = ("seconds", "started", "ended")


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return the rows as CSV that `read_rows` reads back, whatever texts are in them; None is an empty field."""
    lines = _Lines()
    # Python quotes what ends a line for the writer, and takes either sign for an end when it reads.
    csv.writer(lines, lineterminator="\r\n").writerows(rows)
    return "".join(f"{line.removesuffix(chr(13) + chr(10))}\n" for line in lines)


class _Lines(list[str]):
    """A file, as far as a CSV writer is concerned: a line a row."""

    write = list.append


def read_rows(path: Path, needed: Sequence[str]) -> Sequence[Row]:
    """Return the rows of a trials.csv, as texts.

    Raises:
        StudyError: when the file cannot be read, lacks one of the needed columns, or has a row of another length.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows, columns = list(reader), reader.fieldnames or []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"{path}: cannot be read: {error}") from error
    for column in needed:
        if column not in columns:
            raise StudyError(f"{path}: has no column '{column}'; it has {', '.join(columns) or 'none'}")
    for line, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise StudyError(f"{path}:{line}: has not {len(columns)} fields as the header has")
    return rows


def point_of(row: Row, space: Space) -> Point | None:
    """Return the row's point, with the space's own values; None where it lies outside of the space."""
    point: dict[str, Value] = {}
    for dimension in space.dimensions:
        if space.active(dimension, point):
            found = [value for value in _readings(row.get(dimension.key, ""), dimension) if allows(dimension, value)]
            if not found:
                return None
            point[dimension.key] = found[0]
    return point if space.contains(point) else None


def _readings(text: str, dimension: Dimension) -> list[Value]:
    """Return what the text of a cell may stand for among the dimension's values."""
    number = _number(text)
    if isinstance(dimension, Range):
        if number is None:
            return []
        return [int(number) if dimension.integer and number == int(number) else number]
    exact = [value for value in dimension.values if ("" if value is None else str(value)) == text]
    if exact or isinstance(dimension, Choices) or number is None:
        return exact
    return [v for v in dimension.values if isinstance(v, int | float) and not isinstance(v, bool) and v == number]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
