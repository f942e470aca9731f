"""Imports a CSV table of trials."""

import csv
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from hpo.errors import DataError, nearest
from hpo.integrations.exchange.imported import Imported, attempt, direction_of
from hpo.trials.table import FOLD, OWN_COLUMNS, TIMES, twice
from hpo.trials.trial import Direction, Trial

# Columns that are not hyperparameters, in our own tables and in tables of other libraries.
_OTHERS = {"number", "round", "score", "num_parameters", *TIMES, "error", "trial_id"}
# Names of the column with a trial's state, in our own tables and those of Optuna, W&B (`State`) and MLflow (`Status`).
_STATES = ("state", "status")
# Prefixes of hyperparameters in Optuna's `trials_dataframe` and Ray's `get_dataframe`.
_PREFIXES = ("params_", "config/")
# For each name of a state, whether it means failure. A trial with any other state, such as pruned, is left out.
_IS_FAILED = {
    **dict.fromkeys(("complete", "completed", "terminated", "done", "finished", "ok", "success"), False),
    **dict.fromkeys(("failed", "fail", "error"), True),
}


def read_csv(path: Path, metrics: Mapping[str, Direction | None], keys: Sequence[str] | None) -> Imported:
    """Return the trials of a table, one per row.

    A column `state` or `status` says which trials are complete and which have failed. Trials in other states, such as
    pruned or running, are left out. A complete trial counts as failed if a metric is empty or not finite. The values
    of hyperparameters stay texts. An empty cell means that the trial does not have the hyperparameter.

    Args:
        path: a CSV file with a header.
        metrics: the columns of the metrics, the leading metric first; for each, whether a higher or a lower value is
            better. None = as usual for this metric.
        keys: the columns of hyperparameters. None = the columns with a prefix of Optuna (`params_x`) or Ray
            (`config/x`). If no column has such a prefix: all columns without another known meaning.

    Raises:
        ConfigError: a direction is None, and the metric is not a name with a known direction.
        DataError: the table cannot be read, lacks a column, has two columns for the same name, has a row with a wrong
            number of cells, or has a metric that is no number.
    """
    rows, columns = _rows(path)
    for column in (*metrics, *(keys or ())):
        if column not in columns:
            raise DataError(
                f"csv: {path} has no column '{column}'{nearest(column, columns)}; its columns are {', '.join(columns)}"
            )
    directions = {metric: direction_of(metric, direction) for metric, direction in metrics.items()}
    names = _names(columns, directions, keys)
    if (again := twice(list(names.values()))) is not None:
        both = " and ".join(f"'{column}'" for column, key in names.items() if key == again)
        raise DataError(f"csv: {path}: the columns {both} both mean the hyperparameter '{again}'; rename one of them")
    state = next((column for column in columns if column.lower() in _STATES and column not in names), None)
    trials, pruned = list[Trial](), 0
    for line, row in rows:
        name = row[state].strip().lower() if state else "complete"
        if (is_failed := _IS_FAILED.get(name)) is None:
            pruned += name == "pruned"
            continue
        point = {key: row[column] for column, key in names.items() if row[column]}
        texts = {metric: row[metric].strip() for metric in directions}
        error = (row.get("error") or "failed") if is_failed or not all(texts.values()) else None
        scores = [_score(text, f"{path}:{line}: '{metric}'") for metric, text in texts.items() if error is None]
        trials.append(attempt(len(trials), point, directions, scores, _seconds(row), error))
    unfinished = len(rows) - len(trials) - pruned
    (metric, direction), *others = directions.items()
    return Imported(trials, metric, direction, str(path), unfinished, further=dict(others), num_pruned=pruned)


def _score(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise DataError(f"csv: {where} must be a number, given {text!r}") from error


def _rows(path: Path) -> tuple[list[tuple[int, dict[str, str]]], Sequence[str]]:
    """Return pairs (number of the row's last line in the file, row), and the names of the columns."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            # The reader ignores blanks after a comma.
            reader = csv.DictReader(file, restkey="", restval=None, skipinitialspace=True)
            columns = reader.fieldnames = [name.strip() for name in reader.fieldnames or []]
            rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise DataError(f"csv: {path} cannot be read: {error.strerror}; give a readable file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"csv: {path} cannot be read: {error}; give a CSV file in UTF-8") from error
    if not columns:
        raise DataError(f"csv: {path} is empty; its first line must name the columns")
    if (again := twice(columns)) is not None:
        raise DataError(f"csv: {path}: two columns are called '{again}'; give each its own name")
    for line, row in rows:
        if None in row.values() or ("" in row and "" not in columns):
            raise DataError(
                f"csv: {path}:{line}: must have {len(columns)} cells, because the header has {len(columns)}"
            )
    return rows, columns


def _names(columns: Sequence[str], metrics: Collection[str], keys: Sequence[str] | None) -> dict[str, str]:
    """Return the columns of hyperparameters, each with the dotted key of the hyperparameter."""
    if keys is not None:
        return {key: key for key in keys}
    for prefix in _PREFIXES:
        marked = {c: c.removeprefix(prefix).replace("/", ".") for c in columns if c.startswith(prefix)}
        if marked:
            return marked
    # In tables of other programs, a column such as `cost` or `amount` may be a hyperparameter.
    others = _OTHERS | (OWN_COLUMNS if {"number", "round"} <= set(columns) else set())
    return {
        c: c
        for c in columns
        if c and c not in others and c.lower() not in _STATES and c not in metrics and not FOLD.fullmatch(c)
    }


def _seconds(row: Mapping[str, str]) -> float:
    try:
        seconds = float(row.get("seconds", 0))
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds < math.inf else 0.0
