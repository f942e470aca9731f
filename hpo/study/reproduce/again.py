"""Trains recorded trials again, and compares the new scores with the recorded scores."""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpo.errors import StudyError
from hpo.study.basis.changes import AllowedChange
from hpo.study.files.folder import StudyFolder
from hpo.study.reproduce.recorded import Recorded, amount_of
from hpo.study.study import PreparedStudy
from hpo.trials.reported_values import number
from hpo.trials.table import Row, metric_columns, point_of
from hpo.trials.trial import Outcome, Trial
from hpo.workers.dispatch.dispatcher import outcomes
from hpo.workers.dispatch.local import LocalDispatcher
from hpo.workers.training.tasks import Task


@dataclass(frozen=True)
class Repetition:
    """A recorded value of a trial, and the value that the same training has now.

    Attributes:
        trial: the trial's number.
        name: the task's name in trials.csv, such as `fold_0`; for a mean, the metric's name.
        recorded: the value in trials.csv.
        reproduced: the value now; None if the training failed.
        error: why the training failed; None if it did not fail.
        is_mean: whether the value is a mean over the trial's tasks. Only the leading metric has a value for each task.
    """

    trial: int
    name: str
    recorded: float
    reproduced: float | None
    error: str | None
    is_mean: bool = False

    def holds(self, tolerance: float) -> bool:
        """Return whether the two values differ by at most `tolerance`, relative to the larger absolute value.

        Return False if the training failed.
        """
        return self.reproduced is not None and math.isclose(self.recorded, self.reproduced, rel_tol=tolerance)


def reproduce(
    recorded: Recorded, which: str, folds: Sequence[int] | None, show: Callable[[Repetition], None]
) -> list[Repetition]:
    """Train trials again with their recorded seeds, in this process, and return each comparison with a recorded value.

    For each training, compare the leading metric. If all folds are trained, also compare the trial's means of all
    other metrics and of the values with a limit. Do not compare values that depend on the machine; see
    `measured_metrics`.

    Args:
        recorded: the study.
        which: `best`, `all` or a trial's number.
        folds: the folds to train; None = all folds.
        show: a function that is called with each comparison.

    Raises:
        StudyError: the chosen trial or fold does not exist, the study has no winner, or trials.csv is not valid.
    """
    study, repetitions = recorded.study, []
    with tempfile.TemporaryDirectory(prefix="hpo-reproduce-") as scratch:
        study = replace(study, folder=StudyFolder(Path(scratch)))
        study.folder.write_function(study.objective.pickled)
        if study.plan is not None:
            study.objective.write_development_data(
                study.config.objective_config, study.plan.development, study.folder.data_dir
            )
        dispatcher = LocalDispatcher(str(Path.cwd()))
        for row in recorded.trials(which):
            done: list[Outcome] = []
            for task in _tasks(study, row, folds, recorded.files.allowed):
                repetition, outcome = _repeat(study, row, task, dispatcher)
                done.append(outcome)
                repetitions.append(repetition)
                show(repetition)
            for repetition in _means(study, row, done) if len(done) == study.layout.size else ():
                repetitions.append(repetition)
                show(repetition)
    return repetitions


def _tasks(study: PreparedStudy, row: Row, folds: Sequence[int] | None, allowed: Sequence[AllowedChange]) -> list[Task]:
    point = point_of(row, study.space)
    if point is None:
        raise StudyError(f"trials.csv: trial {row['number']} is not in the study's space; restore the file")
    try:
        trial = Trial(int(row["number"]), 0, point, amount=amount_of(row))
    except ValueError as error:
        raise StudyError(f"trials.csv: trial {row['number']!r}: {error}; restore the file") from error
    tasks = study.as_of(allowed, trial).task_builder().tasks_of(trial)
    if not set(folds or ()) <= set(range(study.layout.folds)):
        raise StudyError(f"folds: must be from 0 to {study.layout.folds - 1}, given {folds}")
    return [task for task in tasks if folds is None or study.layout.fold(task.index) in folds]


def _repeat(study: PreparedStudy, row: Row, task: Task, dispatcher: LocalDispatcher) -> tuple[Repetition, Outcome]:
    name = study.layout.name(task.index)
    before = _read_number(row, name)
    ((_, outcome),) = outcomes(dispatcher, [task])
    now = outcome.metrics.get(study.config.study.metric)
    return Repetition(task.trial, name, before, now, outcome.error), outcome


def _means(study: PreparedStudy, row: Row, done: Sequence[Outcome]) -> Iterator[Repetition]:
    """For each name in `Goal.names` except the leading metric, yield a `Repetition` of the mean over the trial's tasks.

    Skip values that depend on the machine (see `measured_metrics`), and values without a column in trials.csv.
    """
    error = next((outcome.error for outcome in done if outcome.error), None)
    again = Trial(int(row["number"]), 0, {}, outcomes=dict(enumerate(done)))
    for name, column in metric_columns(row, study.goal).items():
        if name not in (study.goal.metric, *measured_metrics(study)):
            now = None if error else again.mean(name)
            yield Repetition(again.number, name, _read_number(row, column), now, error, is_mean=True)


def measured_metrics(study: PreparedStudy) -> list[str]:
    """Return the names of the values that depend on the machine, such as times; leave out the leading metric."""
    measured = (study.described.method or {}).get("measured") or ()
    return [name for name in study.goal.names[1:] if name in measured]


def _read_number(row: Row, column: str) -> float:
    """Return the number in this column of a row; StudyError if the column has no finite number."""
    try:
        value = number(float(row[column]))
    except ValueError:
        value = None
    if value is None:
        raise StudyError(f"trials.csv: trial {row['number']}: {column} must be a finite number, given {row[column]!r}")
    return value
