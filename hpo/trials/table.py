"""Makes, writes and reads the table of all trials, trials.csv."""

import csv
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from hpo.errors import StudyError
from hpo.files import write_atomically
from hpo.trials.goal import Goal
from hpo.trials.ranking import front
from hpo.trials.space.dimensions import Dimension, Range, Value, allows
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import PARAMETERS, TaskLayout, Trial

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, str]

# The columns that differ from one run of a study to the next.
TIMES = ("seconds", "started", "ended")
_FOLD = re.compile(r"fold_\d+(_repeat_\d+)?")
_OTHERS = frozenset(
    {
        *("number", "round", "learned", "cost", "state", "score", "amount", "reached", "retry_of", "num_parameters"),
        *("error", *TIMES),
    }
)

# Further columns of studies with several metrics or limits.
_OF_SEVERAL = frozenset({"is_on_front", "excess", "is_chosen"})


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return the rows as CSV that `read_rows` reads, whatever texts they hold; None is an empty field."""
    lines = _Lines()
    # With "\r\n" the writer quotes both characters, because the reader takes either one for the end of a line.
    csv.writer(lines, lineterminator="\r\n").writerows(rows)
    return "".join(f"{line.removesuffix(chr(13) + chr(10))}\n" for line in lines)


class _Lines(list[str]):
    """A list that a CSV writer uses as its file, one line per row."""

    write = list.append


def read_rows(path: Path, needed: Sequence[str]) -> Sequence[Row]:
    """Return the rows of a trials.csv as texts.

    Raises:
        StudyError: the file cannot be read, a row has missing fields, or a column is missing or occurs twice.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows, columns = list(reader), reader.fieldnames or []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"{path}: cannot be read: {error}") from error
    if (again := twice(columns)) is not None:
        raise StudyError(f"{path}: two columns are called '{again}'; give each its own name")
    for column in needed:
        if column not in columns:
            raise StudyError(f"{path}: has no column '{column}'; it has {', '.join(columns) or 'none'}")
    for line, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise StudyError(f"{path}:{line}: must have {len(columns)} fields, as the header has")
    return rows


def twice(names: Sequence[str]) -> str | None:
    """Return a non-empty name that occurs twice in a header; a CSV reader would silently take the last column."""
    return next((name for name, count in Counter(names).items() if count > 1 and name.strip()), None)


def point_of(row: Row, space: Space, fill: Mapping[str, Value] = MappingProxyType({})) -> Point | None:
    """Return the point of a row, with the space's own values; None if it is outside of the space.

    `fill` holds by key the value of a dimension that the row lacks; see `says_nothing`.
    """
    point: dict[str, Value] = {}
    for dimension in space.dimensions:
        if space.active(dimension, point):
            is_filled = dimension.key in fill and says_nothing(row, dimension)
            values = [fill[dimension.key]] if is_filled else _allowed(_text(row, dimension) or "", dimension)
            if not values:
                return None
            point[dimension.key] = values[0]
    return point if space.contains(point) else None


def says_nothing(row: Row, dimension: Dimension) -> bool:
    """Return whether a row lacks the column of a dimension, or has an empty field that is no value of it."""
    text = _text(row, dimension)
    return text is None or (text == "" and not _allowed(text, dimension))


def _text(row: Row, dimension: Dimension) -> str | None:
    # In a table of imported trials, the column of a hyperparameter is always its key.
    return row.get(column_of(dimension.key, _OF_SEVERAL), row.get(dimension.key))


def _allowed(text: str, dimension: Dimension) -> list[Value]:
    return [value for value in _readings(text, dimension) if allows(dimension, value)]


def _readings(text: str, dimension: Dimension) -> list[Value]:
    """Return the values that the text of a cell can mean; they may be outside of a range."""
    number = _number(text)
    if isinstance(dimension, Range):
        if number is None:
            return []
        return [int(number) if dimension.integer and number == int(number) else number]
    exact = [value for value in dimension.values if ("" if value is None else str(value)) == text]
    # Other programs write true for True, and 16.0 for 16.
    exact = exact or [v for v in dimension.values if isinstance(v, bool) and str(v).lower() == text.strip().lower()]
    if exact or number is None:
        return exact
    return [v for v in dimension.values if isinstance(v, int | float) and not isinstance(v, bool) and v == number]


def metric_columns(row: Row, goal: Goal) -> dict[str, str]:
    """Return the columns of the goal's names that the row has, by name, the leading metric first."""
    columns = {goal.metric: "score"}
    for name in goal.names[1:]:
        column = f"metric.{name}" if f"metric.{name}" in row else name
        columns |= {name: column} if column in row else {}
    return columns


def own_columns(keys: Iterable[str]) -> list[str]:
    """Return the hyperparameters whose column is their key, whatever other columns there are."""
    return [key for key in keys if column_of(key, _OF_SEVERAL) == key]


def column_of(key: str, others: Collection[str] = ()) -> str:
    """Return the column of a hyperparameter: its key, or with a prefix if another column has this name."""
    return f"space.{key}" if key in _OTHERS or key in others or _FOLD.fullmatch(key) else key


def metric_column(name: str, taken: Collection[str], prefix: str = "metric") -> str:
    """Return the column of a metric or a note: its name, or with a prefix if another column has this name."""
    is_taken = name in taken or name in _OTHERS or name in _OF_SEVERAL or _FOLD.fullmatch(name)
    return f"{prefix}.{name}" if is_taken else name


def deciding_columns(row: Row, keys: Iterable[str], goal: Goal) -> set[str]:
    """Return the columns of a row without further values and notes of the objective."""
    own = {column_of(key) for key in keys} | {column_of(key, _OF_SEVERAL) for key in keys}
    of_goal = {*metric_columns(row, goal).values()}
    return {name for name in row if name in _OTHERS | _OF_SEVERAL | own | of_goal or _FOLD.fullmatch(name)}


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def first_start(trials: Sequence[Trial]) -> float:
    """Return the start of the first training in seconds since the epoch; 0 if none has started."""
    return min((trial.started for trial in trials if trial.started is not None), default=0.0)


def trials_table(trials: Sequence[Trial], keys: Sequence[str], goal: Goal, layout: TaskLayout) -> "pd.DataFrame":
    """Return one row per trial, in the order of their numbers; a missing value is empty.

    - Hyperparameters have their dotted keys, and further metrics of the goal their names. One with the name of another
      column has the prefix `space.` or `metric.`.
    - `is_on_front`, with several metrics: whether no other trial dominates this one.
    - `excess`, with limits: how far the trial is beyond them.
    - `retry_of`: the number of the failed trial that it retries.
    - `cost`: the cost of all its training, on the study's clock.
    - `fold_0`, with repeats `fold_0_repeat_0`, and so on: the (leading) metric of each task.
    - `seconds`: the wall time of all tasks together. `started` and `ended`: the times of the first and last task, in
      seconds since the study's first.
    - The last columns hold the other numbers that the objective returned (the mean over folds), and its notes. One with
      the name of another column has the prefix `metric.` or `note.`.
    """
    start = first_start(trials)
    columns: dict[str, list[Any]] = {
        "number": [trial.number for trial in trials],
        "round": [trial.round for trial in trials],
        "learned": [" ".join(map(str, trial.learned)) or None for trial in trials],
        "cost": [trial.total_cost for trial in trials],
        "state": [trial.state for trial in trials],
        "score": [trial.score for trial in trials],
    }
    taken = {column_of(key) for key in keys}
    for name in goal.names[1:]:
        values = [trial.mean(name) if trial.state == "complete" else None for trial in trials]
        columns[metric_column(name, taken)] = values
    if len(goal.metrics) > 1:
        on_front = {trial.number for trial in front(trials)}
        columns["is_on_front"] = [trial.number in on_front for trial in trials]
    if goal.limits:
        columns["excess"] = [trial.excess if trial.state == "complete" else None for trial in trials]
    columns |= {column_of(key, columns): [trial.point.get(key) for trial in trials] for key in keys}
    if any(trial.amount is not None for trial in trials):
        columns["amount"] = [trial.amount for trial in trials]
        columns["reached"] = [trial.reached for trial in trials]
    if any(trial.retry_of is not None for trial in trials):
        columns["retry_of"] = [trial.retry_of for trial in trials]
    for index in range(layout.size):
        outcomes = [trial.outcomes.get(index) for trial in trials]
        columns[layout.name(index)] = [outcome and outcome.metrics.get(goal.metric) for outcome in outcomes]
    columns["num_parameters"] = [trial.num_parameters for trial in trials]
    columns["seconds"] = [round(trial.seconds, 3) for trial in trials]
    for name, times in (("started", [t.started for t in trials]), ("ended", [t.ended for t in trials])):
        columns[name] = [None if time is None else round(time - start, 3) for time in times]
    columns["error"] = [trial.error for trial in trials]
    for kind in ("metrics", "notes"):
        columns |= _belonging(trials, kind, goal, columns)
    import pandas as pd  # Half a second to load, and readers of a table do not need it.

    # With another dtype, pandas would turn a column of integers with a missing value into floats.
    return pd.DataFrame(columns, dtype=object)


def _belonging(
    trials: Sequence[Trial], kind: Literal["metrics", "notes"], goal: Goal, taken: Collection[str]
) -> dict[str, list[Any]]:
    """Return the columns of the numbers that the objective returned beyond the goal, or of its notes."""
    rows = [trial.belonging(kind) for trial in trials]
    known = {*goal.names, PARAMETERS} if kind == "metrics" else set()
    names = dict.fromkeys(name for row in rows for name in row if name not in known)
    prefix = kind.removesuffix("s")
    return {metric_column(name, taken, prefix): [row.get(name) for row in rows] for name in names}


def write_trials(path: Path, table: "pd.DataFrame") -> None:
    """Write the table as CSV; floats have all digits, so that equal files mean equal trials."""
    write_atomically(path, csv_text([list(table.columns), *table.itertuples(index=False)]))
