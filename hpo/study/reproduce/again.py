"""Trains recorded trials again, and compares the new scores with the recorded scores."""

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder
from hpo.study.reproduce.recorded import Recorded, amount_of
from hpo.study.study import PreparedStudy
from hpo.study.winner.training import fresh_tasks
from hpo.trials.reported_values import number
from hpo.trials.table import Row, metric_columns, point_of
from hpo.trials.trial import Outcome, Trial
from hpo.workers.dispatch.dispatcher import outcomes
from hpo.workers.dispatch.local import LocalDispatcher
from hpo.workers.training.tasks import Task


@dataclass(frozen=True)
class Repetition:
    """A recorded value of a trial, and the same value after the trial's trainings are repeated.

    Attributes:
        trial: the trial's number.
        name: the task's name in trials.csv, such as `fold_0`; for a finalist's trainings on fresh seeds, `fresh_0`,
            `fresh_1` and so on; for a mean, the metric's name.
        recorded: the value in trials.csv; for fresh seeds, the value in `finalists` of report.json.
        reproduced: the value after the repetition; None if the repeated training failed.
        error: why the repeated training failed; None if it did not fail.
        is_mean: whether the value is a mean over the trial's trainings. Only the leading metric has a value for each
            training.
        is_fresh: whether the value comes from a finalist's trainings on fresh seeds.
    """

    trial: int
    name: str
    recorded: float
    reproduced: float | None
    error: str | None
    is_mean: bool = False
    is_fresh: bool = False

    @property
    def label(self) -> str:
        """The value's name in texts and tables, such as `fold_0`, `fresh_0` or `mean latency on fresh seeds`."""
        if not self.is_mean:
            return self.name
        return f"mean {self.name}" + (" on fresh seeds" if self.is_fresh else "")

    def holds(self, tolerance: float) -> bool:
        """Return whether the two values differ by at most `tolerance`, relative to the larger absolute value.

        Return False if the training failed.
        """
        return self.reproduced is not None and math.isclose(self.recorded, self.reproduced, rel_tol=tolerance)


def reproduce(
    recorded: Recorded, which: str, folds: Sequence[int] | None, show: Callable[[Repetition], None]
) -> list[Repetition]:
    """Train trials again with their recorded seeds, in this process, and return each comparison with a recorded value.

    For each training, compare the leading metric. If all folds are trained, also compare each other value in
    `Goal.names`, as its mean over the trial's trainings. Skip values that depend on the machine; see
    `measured_metrics`. If `folds` is None and a trial is a finalist, also repeat the trial's trainings on fresh seeds.

    Args:
        which: `best`, `all` or a trial's number.
        folds: the folds to train; None = all folds.
        show: a function that is called with each comparison.

    Raises:
        StudyError: the chosen trial or fold does not exist, the study has no winner, or trials.csv is not valid.
    """
    study, repetitions = recorded.study, []
    if not set(folds or ()) <= set(range(study.layout.folds)):
        raise StudyError(f"folds: must be from 0 to {study.layout.folds - 1}, given {folds}")
    with tempfile.TemporaryDirectory(prefix="hpo-reproduce-") as scratch:
        study = replace(study, folder=StudyFolder(Path(scratch)))
        study.folder.write_function(study.objective.pickled)
        if study.plan is not None:
            study.objective.write_development_data(
                study.config.objective_config, study.plan.development, study.folder.data_dir
            )
        dispatcher = LocalDispatcher(str(Path.cwd()))
        for row in recorded.trials(which):
            for trainings in _trainings(recorded, study, row, folds):
                for repetition in _repeat(study, trainings, dispatcher):
                    repetitions.append(repetition)
                    show(repetition)
    return repetitions


@dataclass(frozen=True)
class _Trainings:
    """Trainings of one trial, with recorded values.

    Attributes:
        values: the recorded score of each training, by the task's name.
        means: the recorded mean of each metric over the trainings, by the metric's name; empty if only some of the
            trial's trainings are repeated.
    """

    tasks: Sequence[Task]
    values: Mapping[str, float]
    means: Mapping[str, float]
    is_fresh: bool = False


def _trainings(recorded: Recorded, study: PreparedStudy, row: Row, folds: Sequence[int] | None) -> Iterator[_Trainings]:
    """Yield a trial's trainings in the search.

    If `folds` is None and the trial is a finalist, also yield the trial's trainings on fresh seeds.
    """
    point, layout = point_of(row, study.space), study.layout
    if point is None:
        raise StudyError(f"trials.csv: trial {row['number']} is not in the study's space; restore the file")
    try:
        trial = Trial(int(row["number"]), 0, point, amount=amount_of(row))
    except ValueError as error:
        raise StudyError(f"trials.csv: trial {row['number']!r}: {error}; restore the file") from error
    study = study.as_of(recorded.files.allowed, trial)
    tasks = [task for task in study.task_builder().tasks_of(trial) if folds is None or layout.fold(task.index) in folds]
    names = [layout.name(task.index) for task in tasks]
    columns = metric_columns(row, study.goal) if len(tasks) == layout.size else {}
    means = {name: _read_number(row, column) for name, column in columns.items()}
    yield _Trainings(tasks, {name: _read_number(row, name) for name in names}, means)
    if folds is None and (fresh := recorded.fresh_scores(trial.number)):
        values, means = fresh
        yield _Trainings(
            fresh_tasks(study, trial), {f"fresh_{k}": v for k, v in enumerate(values)}, means, is_fresh=True
        )


def _repeat(study: PreparedStudy, trainings: _Trainings, dispatcher: LocalDispatcher) -> Iterator[Repetition]:
    """Run the trainings, and yield a `Repetition` for the score of each training.

    Then yield a `Repetition` for the mean of each other metric over the trainings. Skip metrics that depend on the
    machine; see `measured_metrics`.
    """
    done: list[Outcome] = []
    for task, (name, before) in zip(trainings.tasks, trainings.values.items(), strict=True):
        ((_, outcome),) = outcomes(dispatcher, [task])
        done.append(outcome)
        now = outcome.metrics.get(study.goal.metric)
        yield Repetition(task.trial, name, before, now, outcome.error, is_fresh=trainings.is_fresh)
    error = next((outcome.error for outcome in done if outcome.error), None)
    again = Trial(trainings.tasks[0].trial, 0, {}, outcomes=dict(enumerate(done)))
    for name, before in trainings.means.items():
        if name not in (study.goal.metric, *measured_metrics(study)):
            now = None if error else again.mean(name)
            yield Repetition(again.number, name, before, now, error, is_mean=True, is_fresh=trainings.is_fresh)


def measured_metrics(study: PreparedStudy) -> list[str]:
    """Return the names of the values that depend on the machine, such as times; leave out the leading metric."""
    measured = study.described.method.get("measured") or ()
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
