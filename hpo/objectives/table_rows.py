"""Reads a table of measured configurations: the hyperparameters, and the scores of each row."""

import csv
import fnmatch
import gzip
import hashlib
import io
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from hpo.config.keys import is_number
from hpo.errors import nearest

ABSENT = ("fail", "nearest", "exclude", "refuse")

# Two sums of distances that differ by less than this may be equal except for rounding.
_ROUNDED = 1e-9

Key = tuple[Any, ...]


class TableConfig(BaseModel):
    """The settings in conf/data/table.yaml. That file explains each setting."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    path: str
    metric: str | list[str]
    metric_name: str | None = None
    cost: str | None
    where: dict[str, Any]
    columns: list[str] | None
    absent: str
    curves: str | None
    curve: str | None


@dataclass(frozen=True)
class Row:
    """One measured configuration."""

    scores: tuple[float, ...]  # the metric, one score per fold
    cost: float | None  # seconds of the training; None = the table has no cost
    curve: tuple[float, ...] | None  # the metric along the training; None = the table has no curves
    others: Mapping[str, Any]  # the values of all columns by name


@dataclass(frozen=True)
class Table:
    """A table of measured configurations."""

    # The values of each hyperparameter: numbers in ascending order, texts in the order of their appearance.
    values: Mapping[str, tuple[Any, ...]]
    rows: Mapping[Key, Row]  # the measured configurations by their values, in the order of `values`
    num_folds: int  # number of scores per row
    absent: str  # how to handle a combination that no row has; see conf/data/table.yaml
    left_out: tuple[str, ...]  # columns that are neither hyperparameters, requested results nor in `where`
    files: tuple[Mapping[str, Any], ...]  # path, sha256 and size of the table and, if given, of the learning curves

    def nearest(self, point: Key) -> tuple[Row, float]:
        """Return the row nearest to a point, and the distance. On ties, return the row that comes first in the table.

        The distance of a row from the point is the mean of the distances between their values, over the
        hyperparameters. The distance of two numbers is the difference of their ranks among the table's values, divided
        by the largest possible difference. Equal texts have the distance 0, different texts 1. A value that is not in
        the table has the distance 1 from all values.
        """
        # The distance of each row from the point in each hyperparameter; shape (rows, hyperparameters).
        parts = np.ones(self._row_places.shape)
        for column, (places, mine) in enumerate(zip(self._places, point, strict=True)):
            if mine in places:
                apart = np.abs(self._row_places[:, column] - places[mine])
                parts[:, column] = apart > 0 if isinstance(mine, str) else apart / max(1, len(places) - 1)
        sums = parts.sum(axis=1)
        # Sums of NumPy are rounded. `fsum` is exact, so use it to choose among the nearest rows.
        near = np.flatnonzero(sums <= sums.min() + _ROUNDED)
        distances = [math.fsum(parts[row]) / parts.shape[1] for row in near]
        nearest = min(range(len(near)), key=distances.__getitem__)
        return list(self.rows.values())[near[nearest]], distances[nearest]

    @cached_property
    def numbers(self) -> list[str]:
        """The columns that are not hyperparameters and have a number in the first row."""
        first = next(iter(self.rows.values())).others
        return [name for name, value in first.items() if name not in self.values and is_number(value)]

    @cached_property
    def _places(self) -> list[dict[Any, int]]:
        """For each hyperparameter, a dict from each value to the value's index in the list of values."""
        return [{value: place for place, value in enumerate(values)} for values in self.values.values()]

    @cached_property
    def _row_places(self) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """The index of each row's value among all values of the hyperparameter; shape (rows, hyperparameters)."""
        return np.array([[places[v] for places, v in zip(self._places, key, strict=True)] for key in self.rows])


def read_table(config: TableConfig) -> Table:
    """Read a table of measured configurations, with learning curves if `curves` names a file.

    If `columns` is not given, the hyperparameters are the columns before the first score or cost, except columns in
    `where`, columns with only one value, and columns that number the rows. A row with a score or cost that is not
    finite counts as absent.

    Raises:
        ValueError: a setting or a line of a file is wrong; the message names it.
    """
    path, cost, where, absent = Path(config.path), config.cost, config.where, config.absent
    frame = _read_frame(path).reset_index(drop=True)  # so that the index counts the rows
    names = [str(name) for name in frame.columns]
    patterns = [config.metric] if isinstance(config.metric, str) else config.metric
    matching = [[pattern] if pattern in names else fnmatch.filter(names, pattern) or [pattern] for pattern in patterns]
    scores = [name for each in matching for name in each]
    results = [*scores, *([cost] if cost else [])]
    for setting, given in (("metric", scores), ("cost", results), ("where", where), ("columns", config.columns or ())):
        if (name := next((name for name in given if name not in names), None)) is not None:
            raise ValueError(
                f"data.{setting}: the table has no column '{name}'{nearest(name, names)}; it has {', '.join(names)}"
            )
    if absent not in ABSENT:
        raise ValueError(f"data.absent: must be one of {', '.join(ABSENT)}, given {absent!r}{nearest(absent, ABSENT)}")
    for name, value in where.items():
        frame = frame[frame[name] == value]
        if frame.empty:
            raise ValueError(f"data.where: no row of the table has {name}={value!r}")
    records: list[dict[str, Any]] = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
    numbers = [int(place) + 1 for place in frame.index]  # the numbers of the rows in the whole table, from 1
    chosen = config.columns or _hyperparameters(names, results, records, where)
    if not chosen:
        raise ValueError(
            "data.columns: no column of the table could be a hyperparameter; list the hyperparameters' columns here"
        )
    rows = _rows(zip(numbers, records, strict=True), chosen, scores, cost, path)
    if not rows:
        raise ValueError(
            f"data.metric: no row of the table has finite numbers in {', '.join(results)}; give a column with results"
        )
    values = {name: _ordered({key[place]: None for key in rows}) for place, name in enumerate(chosen)}
    left_out = tuple(name for name in names if name not in (*chosen, *results, *where))
    table = Table(values, rows, len(scores), absent, left_out, (_file(path),))
    if (config.curves is None) != (config.curve is None):
        raise ValueError(
            f"data.curves (a file) and data.curve (a field in that file) must be given together, given only "
            f"data.{'curve' if config.curves is None else 'curves'}; give both or neither"
        )
    if config.curves is not None and config.curve is not None:
        table = _join_curves(table, Path(config.curves), config.curve)
    missing = math.prod(len(v) for v in values.values()) - len(table.rows)
    if missing and absent == "refuse":
        raise ValueError(
            f"data.absent: 'refuse' needs a complete table, but {missing} combinations are missing; "
            f"set data.absent to 'fail', 'nearest' or 'exclude'"
        )
    return table


def _join_curves(table: Table, path: Path, field: str) -> Table:
    """Give each row its learning curve from a file of JSON lines; drop rows without a curve.

    The curve of a line is in `field`. Some other fields of a line are also columns of the table. A line belongs to a
    row if the line and the row have equal values in all these columns.
    """
    curves = _read_curves(path)
    if not curves or any(field not in line for line in curves):
        known = ", ".join(curves[0]) if curves else "no lines"
        raise ValueError(
            f"data.curve: must name a field of every line in data.curves, given '{field}'; found in the file: {known}"
        )
    shared = [name for name in curves[0] if name in next(iter(table.rows.values())).others]
    try:
        pairs = [(tuple(line[name] for name in shared), tuple(float(v) for v in line[field])) for line in curves]
        by_row = dict(pairs)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"data.curves: a line is not valid ({type(error).__name__}: {error}); give every line "
            f"{', '.join(shared) or 'a column of the table'}, and a list of numbers as '{field}'"
        ) from error
    place, count = Counter(place for place, _ in pairs).most_common(1)[0]
    if shared and count > 1:
        raise ValueError(
            f"data.curves: must have one line for each row of the table, but {count} lines cannot be "
            f"distinguished, because all of them have {dict(zip(shared, place, strict=True))}; keep one of these "
            f"lines, or add to every line the value of a column that distinguishes them"
        )
    joined = {
        key: replace(row, curve=curve)
        for key, row in table.rows.items()
        if (curve := by_row.get(tuple(row.others[name] for name in shared)))
    }
    if not joined or not shared:
        raise ValueError(f"data.curves: no line has the same {', '.join(shared) or 'values'} as a row of the table")
    return replace(table, rows=joined, num_folds=1, files=(*table.files, _file(path)))


def _read_curves(path: Path) -> Sequence[Mapping[str, Any]]:
    if not path.is_file():
        raise ValueError(f"data.curves: there is no file {path}; give a file of JSON lines")
    try:
        # Split the bytes, because `str.splitlines` also splits at characters that JSON allows in a text.
        texts = [line.decode() for line in _content(path).splitlines()]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"data.curves: {path} is not JSON lines in UTF-8: {error}; correct the file") from error
    lines = []
    for number, line in enumerate(texts, start=1):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = str(error)[:100]
            raise ValueError(f"data.curves: {path}:{number}: is not JSON: {reason}; correct this line") from error
        if not isinstance(values, dict):
            raise ValueError(f"data.curves: {path}:{number}: must be a JSON object, given {line.strip()[:50]!r}")
        lines.append(values)
    return lines


def _content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _file(path: Path) -> Mapping[str, Any]:
    return {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size}


def _read_frame(path: Path) -> Any:
    import pandas as pd  # Importing takes a second.

    is_parquet = path.suffix == ".parquet"
    try:
        if is_parquet:
            return pd.read_parquet(path)
        content = _content(path)
        if b"\0" in content:
            raise ValueError("the file has a NUL character; a file in UTF-16 must be converted to UTF-8")
        # Check for duplicate column names, which pandas would rename. Like pandas, take the first row that is not blank
        # as the header.
        rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        header = next((row for row in rows if len(row) > 1 or "".join(row).strip()), [])
        twice = next((name for name in header if header.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two columns are called '{twice}'; the columns are {', '.join(header)}")
        # These options keep "NA" and "None" as texts, and make a row that is too long an error.
        return pd.read_csv(io.BytesIO(content), keep_default_na=False, na_values=["", "nan", "NaN"], index_col=False)
    except (ValueError, OSError, EOFError, ImportError, zlib.error, csv.Error, pd.errors.ParserWarning) as error:
        # Pandas raises subclasses of ValueError. A bad gzip file raises OSError, EOFError or zlib.error.
        kind, reason = "Parquet" if is_parquet else "CSV", " ".join(str(error).split())
        raise ValueError(f"data.path: {path} is not a table in {kind}: {reason}; correct the file") from error


def _hyperparameters(
    names: Sequence[str], results: Sequence[str], records: Sequence[Mapping[str, Any]], where: Mapping[str, Any]
) -> list[str]:
    first_result = min(names.index(name) for name in results)
    varying = [name for name in names[:first_result] if name not in where and len({row[name] for row in records}) > 1]
    others = [name for name in varying if not _counts_rows([row[name] for row in records])]
    # A column that only counts the rows is not a hyperparameter if the other columns identify each row.
    are_unique = len({tuple(row[name] for name in others) for row in records}) == len(records)
    return others if are_unique else varying


def _counts_rows(column: Sequence[Any]) -> bool:
    is_whole = all(isinstance(value, int) and not isinstance(value, bool) for value in column)
    return is_whole and all(this < following for this, following in pairwise(column))


def _rows(
    records: Iterable[tuple[int, Mapping[str, Any]]],
    chosen: Sequence[str],
    scores: Sequence[str],
    cost: str | None,
    path: Path,
) -> dict[Key, Row]:
    """Return the rows by their values in the columns `chosen`. `records` has each row's number and its values."""
    rows: dict[Key, Row] = {}
    settings = [*(("metric", name) for name in scores), *([("cost", cost)] if cost else [])]
    for place, record in records:
        key = tuple(record[name] for name in chosen)
        if key in rows:
            raise ValueError(
                f"data.columns: {path} has two rows with the values {dict(zip(chosen, key, strict=True))}; name all "
                f"hyperparameters, or choose rows with data.where"
            )
        for setting, name in settings:
            if isinstance(record[name], str) or record[name] is None:
                raise ValueError(
                    f"data.{setting}: row {place} of {path} must have a number in column '{name}', "
                    f"given {record[name]!r}"
                )
        numbers = [record[name] for _, name in settings]
        if cost and numbers[-1] < 0:
            raise ValueError(f"data.cost: row {place} of {path} must have at least 0 seconds, given {numbers[-1]}")
        # A score that is not finite means that the configuration failed. Treat it as absent.
        if all(math.isfinite(v) for v in numbers):
            for name in chosen:
                if isinstance(record[name], float) and math.isnan(record[name]):
                    raise ValueError(
                        f"data.columns: row {place} of {path} must have a value in column '{name}', but the cell is "
                        f"empty; fill it in, choose rows with data.where, or list other hyperparameters in data.columns"
                    )
            cells = [float(v) for v in numbers]
            rows[key] = Row(tuple(cells[: len(scores)]), cells[-1] if cost else None, None, record)
    return rows


def _ordered(distinct: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(distinct if any(isinstance(v, str) for v in distinct) else sorted(distinct))
