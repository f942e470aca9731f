"""The table of all trials, as `trials.csv` holds it."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from hpo.folder import write_atomically
from hpo.trials import TaskGrid, Trial
from hpo.trials_file import TIMES, csv_text


def first_start(trials: Sequence[Trial]) -> float:
    """Return when the first training began, in seconds since the epoch; 0 where none has."""
    return min((trial.started for trial in trials if trial.started is not None), default=0.0)


def trials_table(trials: Sequence[Trial], keys: Sequence[str], metric: str, grid: TaskGrid) -> pd.DataFrame:
    """Return one row a trial in the order of their numbers.

    Columns, in order: number, round, state, score, one per hyperparameter (dotted key), amount (how far a trial was
    trained, under a strategy that trains by amounts), fold_0 ... fold_k (the metric on each fold; with repeats,
    fold_0_repeat_0 and so on), num_parameters, seconds (wall time of all folds together), started and ended (of its
    first and last fold, in seconds since the study's first), error. A value that does
    not exist is empty: the score of a failed trial, a hyperparameter whose condition does not hold.
    """
    amount = ["amount"] if any(trial.amount is not None for trial in trials) else []
    columns = ["number", "round", "state", "score", *keys, *amount]
    columns += [*(grid.name(index) for index in range(grid.size)), "num_parameters", *TIMES, "error"]
    start = first_start(trials)
    rows = [_row(trial, keys, metric, grid, bool(amount), start) for trial in trials]
    # Objects throughout: pandas would turn a column of integers with a gap into floats.
    return pd.DataFrame(rows, columns=columns, dtype=object)


def write_trials(path: Path, table: pd.DataFrame) -> None:
    """Write the table as CSV; floats with all their digits, so that equal files mean equal trials."""
    write_atomically(path, csv_text([list(table.columns), *table.itertuples(index=False)]))


def _row(
    trial: Trial, keys: Sequence[str], metric: str, grid: TaskGrid, has_amount: bool, start: float
) -> list[object]:
    folds = [trial.outcomes[k].metrics.get(metric) if k in trial.outcomes else None for k in range(grid.size)]
    sizes = trial.values("num_parameters")
    return [
        trial.number,
        trial.round,
        trial.state,
        trial.score,
        *(trial.point.get(key) for key in keys),
        *([trial.amount] if has_amount else []),
        *folds,
        int(max(sizes)) if sizes else None,
        round(trial.seconds, 3),
        *(None if time is None else round(time - start, 3) for time in (trial.started, trial.ended)),
        trial.error,
    ]
