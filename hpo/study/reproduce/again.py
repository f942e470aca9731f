"""Trains recorded trials again and compares their scores."""

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
    """A task by its name in trials.csv (`fold_0`), the recorded metric, and that of today; None where that failed.

    `is_mean`: a further metric by its name, or what has a limit, of which trials.csv has the mean over all tasks.
    """

    trial: int
    name: str
    recorded: float
    reproduced: float | None
    error: str | None
    is_mean: bool = False

    def holds(self, tolerance: float) -> bool:
        """Return whether both are equal, or differ by at most this share of the recorded one."""
        return self.reproduced is not None and math.isclose(self.recorded, self.reproduced, rel_tol=tolerance)


def reproduce(
    recorded: Recorded, which: str, folds: Sequence[int] | None, tell: Callable[[Repetition], None]
) -> list[Repetition]:
    """Train the trials again (`best`, `all` or a number) with their recorded seeds, in this process.

    `tell` gets each repetition when it is finished; with several metrics the means of the further ones come after the
    trial's tasks, unless only some folds are trained. StudyError where a row is not in the study's space.
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
                tell(repetition)
            for repetition in _means(study, row, done) if len(done) == study.layout.size else ():
                repetitions.append(repetition)
                tell(repetition)
    return repetitions


def _tasks(study: PreparedStudy, row: Row, folds: Sequence[int] | None, allowed: Sequence[AllowedChange]) -> list[Task]:
    point = point_of(row, study.space)
    if point is None:
        raise StudyError(f"trials.csv: trial {row['number']} is not in the study's space; the file was changed")
    try:
        trial = Trial(int(row["number"]), 0, point, amount=amount_of(row))
    except ValueError as error:
        raise StudyError(f"trials.csv: trial {row['number']!r}: {error}; restore the file") from error
    tasks = study.as_of(allowed, trial).task_builder().tasks_of(trial)
    if not set(folds or ()) <= set(range(study.layout.folds)):
        raise StudyError(f"folds: the study has folds 0 to {study.layout.folds - 1}, given {folds}")
    return [task for task in tasks if folds is None or study.layout.fold(task.index) in folds]


def _repeat(study: PreparedStudy, row: Row, task: Task, dispatcher: LocalDispatcher) -> tuple[Repetition, Outcome]:
    name = study.layout.name(task.index)
    before = _recorded(row, name)
    ((_, outcome),) = outcomes(dispatcher, [task])
    now = outcome.metrics.get(study.config.study.metric)
    return Repetition(task.trial, name, before, now, outcome.error), outcome


def _means(study: PreparedStudy, row: Row, done: Sequence[Outcome]) -> Iterator[Repetition]:
    """Yield the further metrics, and what has a limit, as means over all tasks of a trial; not what is measured."""
    error = next((outcome.error for outcome in done if outcome.error), None)
    again = Trial(int(row["number"]), 0, {}, outcomes=dict(enumerate(done)))
    for name, column in metric_columns(row, study.goal).items():
        if name not in (study.goal.metric, *not_compared(study)):
            now = None if error else again.mean(name)
            yield Repetition(again.number, name, _recorded(row, column), now, error, is_mean=True)


def not_compared(study: PreparedStudy) -> list[str]:
    """Return which further metrics, and what of that has a limit, are of the machine that trains: measured there."""
    measured = (study.described.method or {}).get("measured") or ()
    return [name for name in study.goal.names[1:] if name in measured]


def _recorded(row: Row, column: str) -> float:
    """Return the finite number of a row's column, or raise StudyError."""
    try:
        before = number(float(row[column]))
    except ValueError:
        before = None
    if before is None:
        raise StudyError(f"trials.csv: trial {row['number']}: {column} must be a finite number, given {row[column]!r}")
    return before
