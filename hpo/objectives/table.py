"""An objective that does not train, but looks up scores and costs in a table of measured configurations."""

import functools
import json
import math
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hpo.config.keys import flatten, is_number
from hpo.config.study_config import explain
from hpo.files import file_stamp
from hpo.objectives.table_rows import Row, Table, TableConfig, read_table

# An amount of training is a number of points on the stored learning curve, so no state is needed to continue.
CONTINUES = True
# Increase this number when a change gives another score, curve or cost for the same table and configuration.
REVISION = 1

# If the table has no cost: the seconds of a training, or of each point on its learning curve.
_UNIT = 1.0
_LEAST = 1e-6
# A column with more different values than this share of the rows, in a table of at least so many rows, may be a result.
_MOST_ROWS, _MANY_ROWS = 0.9, 20


_WANTED = {"path": "a table in CSV or Parquet", "metric": "the column of the score, or a list of columns, one per fold"}


def check(config: Mapping[str, Any]) -> None:
    """Raise ValueError with a one-line message if the table in the configuration cannot be searched."""
    _table(config)


def _differs_in_most_rows(values: Sequence[Any], num_rows: int) -> bool:
    """Return whether nearly every row has a different value in a column, as in a column of measured results."""
    return num_rows >= _MANY_ROWS and len(values) > _MOST_ROWS * num_rows


def describe_search(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the search space and other settings from the table; see `SearchDescription`."""
    table = _table(config)
    space = {
        column: {"values" if all(is_number(v) for v in values) else "choices": list(values)}
        for column, values in table.values.items()
    }
    combinations = math.prod(len(values) for values in table.values.values())
    absent = combinations - len(table.rows)
    notes = [f"table: {len(table.rows):,} configurations of {', '.join(table.values)}"]
    if absent:
        notes.append(f"table: {absent:,} of {combinations:,} combinations are absent (data.absent={table.absent})")
    if single := [column for column, values in table.values.items() if _differs_in_most_rows(values, len(table.rows))]:
        notes.append(
            f"table: {', '.join(single)} differ from row to row; if these columns are results, name the "
            f"hyperparameters in data.columns"
        )
    if table.left_out:
        notes.append(f"table: these columns are not hyperparameters: {', '.join(table.left_out)}")
    points = [dict(zip(table.values, key, strict=True)) for key in table.rows] if table.absent == "exclude" else None
    has_curves = any(row.curve is not None for row in table.rows.values())
    return {
        "space": space,
        "points": points,
        "folds": table.num_folds,
        "files": table.files,
        "notes": notes,
        "amounts_need": None
        if has_curves
        else "learning curves (set data.curves to a file of JSON lines, and data.curve to the curve's field in a line)",
    }


def describe_method(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts about the table's rows, for the report."""
    table = _table(config)
    metric = config["data"]["metric"]
    columns = metric if isinstance(metric, str) else ", ".join(metric)
    own = str(config["data"].get("metric_name"))
    return {
        "preprocessing": f"no preprocessing, because scores come from a table of {len(table.rows):,} configurations",
        "vocabulary": "none here",
        "metrics": {own: f"read from {columns} of the table"},
        "columns": table.numbers,
        "checkpoint": "the score in the table; if the table has learning curves, the best score on the curve up to the "
        "trial's amount",
        "determinism": "a training has the same score every time, because the score is looked up in the table",
    }


def describe_cost(config: Mapping[str, Any]) -> float:
    """Return the configuration's cost in the table, in seconds.

    If the table has a learning curve of the configuration, return the cost of one point of the curve. Return 1 if the
    table has no cost, or does not have the configuration.
    """
    row, _ = _row(config)
    if row is None or row.cost is None:
        return _UNIT
    # Avoid a cost of 0 for a training that was too short to measure, because the study's clock must advance.
    cost = max(row.cost, _LEAST)
    return cost / len(row.curve) if row.curve is not None else cost


def run_fold(task: Mapping[str, Any]) -> Generator[dict[str, Any], None, dict[str, float]]:
    """Return a dict with the table's score for the task's configuration and fold, and with `seconds`.

    If the configuration has a learning curve, yield the curve's epochs after `task["trained"]` up to the task's amount.
    The score is then the best value on the curve up to that amount, and the dict also has `units` and `amount`.

    The dict also has every other metric, and every other number that has a limit. These come from the columns of the
    same names, and do not depend on the fold or the amount.

    Raises:
        LookupError: the table does not have the configuration, a value, or a learning curve that the task needs.
    """
    row, distance = _row(task["config"])
    if row is None:
        raise LookupError("the table does not have this configuration")
    metric, curve = task["metric"], row.curve
    others = (name for name in (*task.get("metrics", ()), *task.get("limited", ())) if name != metric)
    fixed = {name: _cell(row, name) for name in others} | ({} if distance is None else {"distance": distance})
    seconds = _UNIT if row.cost is None else row.cost
    if curve is None:
        if task["amount"] is not None:
            raise LookupError("the table has no learning curve for this configuration; give data.curves and data.curve")
        return {metric: row.scores[task["fold"]], "seconds": seconds, **fixed}
    if row.cost is not None:
        seconds /= len(curve)
    end = min(task["amount"] or len(curve), len(curve))
    start = min(task.get("trained") or 0, end)
    for place in range(start, end):
        taken = seconds * (place + 1 - start)
        yield {"epoch": place + 1, metric: curve[place], "seconds": taken, "more": place + 1 < end}
    finite = filter(math.isfinite, curve[:end])
    best = (max if task["direction"] == "maximize" else min)(finite, default=math.nan)
    return {metric: best, "seconds": seconds * (end - start), "units": max(1, end - start), "amount": end, **fixed}


def _cell(row: Row, column: str) -> float:
    value = row.others.get(column)
    if value is None or not is_number(value):
        raise LookupError(f"the table's row of this configuration has no number in column '{column}'")
    return float(value)


def _row(config: Mapping[str, Any]) -> tuple[Row | None, float | None]:
    """Return a row of the table, and the row's distance from the configuration.

    By default, return the configuration's own row (None if the table does not have it), and None as the distance.
    With `data.absent=nearest`, return the nearest row and its distance.
    """
    table = _table(config)
    values = flatten(config)
    point = tuple(values[column] for column in table.values)
    row = table.rows.get(point)
    if table.absent != "nearest":
        return row, None
    return (row, 0.0) if row is not None else table.nearest(point)


def _table(config: Mapping[str, Any]) -> Table:
    data = config.get("data")
    if not isinstance(data, Mapping):
        raise ValueError(f"data: must be a mapping with path and metric, given {data!r}; choose data=table")
    for key in ("path", "metric"):
        if data.get(key) is None:
            raise ValueError(f"data.{key}: is missing; give {_WANTED[key]}")
    path = Path(str(data["path"]))
    if not path.is_file():
        raise ValueError(f"data.path: there is no file {path}; give a table in CSV or Parquet")
    files = [path, *([Path(str(data["curves"]))] if data.get("curves") else [])]
    return _read(json.dumps(data, sort_keys=True), *map(file_stamp, files))


@functools.lru_cache(maxsize=4)
def _read(data: str, *_stamps: tuple[int, int] | None) -> Table:
    """Read the table that the settings `data` (in JSON) describe.

    The result is cached. If a file of the table changes, its stamp (see `file_stamp`) changes, and the next call reads
    the table again.
    """
    try:
        return read_table(TableConfig.model_validate_json(data))
    except ValidationError as error:
        raise ValueError(explain(error, "data.")) from error
