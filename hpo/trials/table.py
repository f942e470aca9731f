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

# The columns whose values differ between two runs of the same study.
TIMES = ("seconds", "started", "ended")
FOLD = re.compile(r"fold_\d+(_repeat_\d+)?")
_OTHERS = frozenset(
    {
        *("number", "round", "learned", "cost", "state", "score", "amount", "reached", "retry_of", "num_parameters"),
        *("error", *TIMES),
    }
)

# The additional columns of studies with several metrics or with limits.
_OF_SEVERAL = frozenset({"is_on_front", "excess", "is_chosen"})
OWN_COLUMNS = _OTHERS | _OF_SEVERAL
"""The names of the standard columns of trials.csv, such as `number` and `score`.

The columns of hyperparameters, folds, notes and further metrics are not in this set.
"""


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV text for `read_rows`, which can read line breaks in texts. None becomes an empty field."""
    lines = _Lines()
    # With "\r\n" as line terminator, the writer quotes texts that contain either character. The reader would take
    # either for the end of a line.
    csv.writer(lines, lineterminator="\r\n").writerows(rows)
    return "".join(f"{line.removesuffix(chr(13) + chr(10))}\n" for line in lines)


class _Lines(list[str]):
    """A list that a CSV writer can use as its file; each item is one row of CSV text."""

    write = list.append


def read_rows(path: Path, needed: Sequence[str]) -> Sequence[Row]:
    """Return the rows of a trials.csv; each row maps column names to texts.

    Raises:
        StudyError: the file cannot be read; a row has too few or too many fields; a column in `needed` is missing; or a
            column occurs twice.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows, columns = list(reader), reader.fieldnames or []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"{path}: cannot be read: {error}") from error
    if (again := twice(columns)) is not None:
        raise StudyError(f"{path}: two columns are called '{again}'; rename one of these columns")
    for column in needed:
        if column not in columns:
            raise StudyError(f"{path}: has no column '{column}'; its columns: {', '.join(columns) or 'none'}")
    for line, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise StudyError(f"{path}:{line}: each row must have {len(columns)} fields, one per column of the header")
    return rows


def twice(names: Sequence[str]) -> str | None:
    """Return the first non-empty name that occurs twice in a header, or None.

    Without this check, a CSV reader would silently use the last of the columns with the same name.
    """
    return next((name for name, count in Counter(names).items() if count > 1 and name.strip()), None)


def point_of(row: Row, space: Space, fill: Mapping[str, Value] = MappingProxyType({})) -> Point | None:
    """Return a row's point, with values converted to the types of the space; None if the point is not in the space.

    `fill` holds values, by key, for dimensions about which the row says nothing; see `says_nothing`.
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
    """Return whether a row says nothing about a dimension.

    A row says nothing if it has no column for the dimension. An empty field also says nothing, unless the dimension has
    a value that is written as an empty field, such as None.
    """
    text = _text(row, dimension)
    return text is None or (text == "" and not _allowed(text, dimension))


def _text(row: Row, dimension: Dimension) -> str | None:
    # In a table of imported trials, the column of a hyperparameter is always named by its key, without a prefix.
    return row.get(column_of(dimension.key, _OF_SEVERAL), row.get(dimension.key))


def _allowed(text: str, dimension: Dimension) -> list[Value]:
    return [value for value in _readings(text, dimension) if allows(dimension, value)]


def _readings(text: str, dimension: Dimension) -> list[Value]:
    """Return the values that a cell's text can stand for. If the dimension is a range, a value may be outside of it."""
    number = _number(text)
    if isinstance(dimension, Range):
        if number is None:
            return []
        return [int(number) if dimension.integer and number == int(number) else number]
    exact = [value for value in dimension.values if ("" if value is None else str(value)) == text]
    # Also accept how other programs write values: true for True, and 16.0 for 16.
    exact = exact or [v for v in dimension.values if isinstance(v, bool) and str(v).lower() == text.strip().lower()]
    if exact or number is None:
        return exact
    return [v for v in dimension.values if isinstance(v, int | float) and not isinstance(v, bool) and v == number]


def metric_columns(row: Row, goal: Goal) -> dict[str, str]:
    """Return a dict that maps the name of each value in the goal to the name of its column in the row.

    The leading metric is first, and its column is always `score`. The dict leaves out any other value that has no
    column in the row.
    """
    columns = {goal.metric: "score"}
    for name in goal.names[1:]:
        column = f"metric.{name}" if f"metric.{name}" in row else name
        columns |= {name: column} if column in row else {}
    return columns


def own_columns(keys: Iterable[str]) -> list[str]:
    """Return the keys of the hyperparameters whose column name is always the key itself, without a prefix."""
    return [key for key in keys if column_of(key, _OF_SEVERAL) == key]


def column_of(key: str, others: Collection[str] = ()) -> str:
    """Return a hyperparameter's column name: its key, with the prefix `space.` if another column may have this name."""
    return f"space.{key}" if key in _OTHERS or key in others or FOLD.fullmatch(key) else key


def metric_column(name: str, taken: Collection[str], prefix: str = "metric") -> str:
    """Return the column name of a metric or a note: its name, with `prefix` if another column may have this name."""
    is_taken = name in taken or name in _OTHERS or name in _OF_SEVERAL or FOLD.fullmatch(name)
    return f"{prefix}.{name}" if is_taken else name


def deciding_columns(row: Row, keys: Iterable[str], goal: Goal) -> set[str]:
    """Return the names of a row's standard columns, hyperparameter columns and goal columns.

    The standard columns include the fold columns, such as `fold_0`. The hyperparameters are `keys`. The goal columns
    hold the values of `goal.names`. The result lacks all other columns, such as the objective's notes.
    """
    own = {column_of(key) for key in keys} | {column_of(key, _OF_SEVERAL) for key in keys}
    of_goal = {*metric_columns(row, goal).values()}
    return {name for name in row if name in _OTHERS | _OF_SEVERAL | own | of_goal or FOLD.fullmatch(name)}


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def first_start(trials: Sequence[Trial]) -> float:
    """Return when the earliest training started, in seconds since the Unix epoch; 0 if no start is known."""
    return min((trial.started for trial in trials if trial.started is not None), default=0.0)


def trials_table(trials: Sequence[Trial], keys: Sequence[str], goal: Goal, layout: TaskLayout) -> "pd.DataFrame":
    """Return a table with one row per trial, in the order of `trials`; missing values are empty.

    - `number`, `round`, `learned`, `state`, `num_parameters` and `error`: the attributes of `Trial`.
    - `amount` and `reached` (only if trials have amounts): the attributes of `Trial`.
    - `score`: the leading metric.
    - Each other value in `Goal.names` has a column of the same name. If this name is taken, the column is
      `metric.NAME`.
    - Each hyperparameter has a column with its dotted key as name. If this name is taken, the column is `space.KEY`.
    - `is_on_front` (only with several metrics): whether the trial is on the Pareto front.
    - `excess` (only with limits): how far the trial is beyond the limits.
    - `retry_of` (only with retries): the number of the failed trial that this trial retries.
    - `cost`: the cost of all training of the trial, on the study's clock.
    - `fold_0` and so on, or with repeats `fold_0_repeat_0` and so on: each task's value of the leading metric.
    - `seconds`: the sum of the wall times of all tasks.
    - `started` and `ended`: the start of the trial's first task and the end of its last training. Both are in
      seconds after the start of the earliest training in `trials`.
    - The last columns hold the other numbers that the objective returned (the mean over the tasks), and the
      objective's notes. A column gets the prefix `metric.` or `note.` if another column has the same name.
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

    # Use dtype object: otherwise, pandas would turn integers into floats in a column with a missing value.
    return pd.DataFrame(columns, dtype=object)


def _belonging(
    trials: Sequence[Trial], kind: Literal["metrics", "notes"], goal: Goal, taken: Collection[str]
) -> dict[str, list[Any]]:
    """Return columns for values that the objective chose to report, by column name.

    If `kind` is "notes", return the objective's notes. If `kind` is "metrics", return the numbers that the objective
    returned, except the numbers in `goal.names`. `taken` has the names of all other columns.
    """
    rows = [trial.belonging(kind) for trial in trials]
    known = {*goal.names, PARAMETERS} if kind == "metrics" else set()
    names = dict.fromkeys(name for row in rows for name in row if name not in known)
    prefix = kind.removesuffix("s")
    return {metric_column(name, taken, prefix): [row.get(name) for row in rows] for name in names}


def write_trials(path: Path, table: "pd.DataFrame") -> None:
    """Write the table as CSV. Floats are written with all digits, so that equal files mean equal trials."""
    write_atomically(path, csv_text([list(table.columns), *table.itertuples(index=False)]))
