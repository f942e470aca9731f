"""Observers of a search: their base, what watches for failures, and what keeps states, models and hosts."""

import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from hpo.errors import StudyError
from hpo.machine import Host
from hpo.trials.history import History
from hpo.trials.ranking import leaders
from hpo.trials.record.record import Record
from hpo.trials.record.user_actions import UserAction
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.store.url import UrlStore, name_of
from hpo.workers.training.tasks import Task, checkpoint_name


class Observer:
    """Notified of events after they are recorded; does nothing by default. It cannot influence the search."""

    def trial_opened(self, trial: Trial) -> None:
        """React to the start of a trial, or the continuation of an interrupted one."""

    def task_begun(self, task: Task) -> None:
        """React to a task that a worker is given."""

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """React to a worker's report: a point of a learning curve, or an outcome."""

    def trial_finished(self, trial: Trial) -> None:
        """React to the last outcome of a trial."""

    def user_acted(self, instruction: UserAction) -> None:
        """React to what a user has requested, which has taken effect."""

    def search_ended(self) -> None:
        """React to the end of the search; what follows it is trained next."""

    def followed_up(self, what: str, num_ended: int, num_all: int) -> None:
        """React to trainings that follow the search: what is trained, and how many of these trainings have ended."""


class FirstFailures(Observer):
    """Watches whether the first trials of a run, so many, all fail with the same error; None = whatever they do.

    Of a training that does not report what it is scored by, one is enough, unless one before was scored (`is_scored`).
    """

    def __init__(self, most: int | None, is_scored: bool = False) -> None:
        self._most = most
        self._errors: list[str | None] | None = []
        self._is_scored = is_scored
        self._lacks_metric: str | None = None

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Note whether a training was scored, or cannot be."""
        if report.outcome is None or self._is_scored:
            return
        self._is_scored = report.outcome.error is None
        if report.lacks_metric:
            self._lacks_metric = f"trial {trial.number} failed: {report.outcome.error}"

    def trial_finished(self, trial: Trial) -> None:
        """Note the trial's error."""
        if self._errors is None:
            return
        self._errors.append(trial.error)
        if trial.state != "failed" or trial.error != self._errors[0]:
            self._errors = None

    def refuse_more(self) -> None:
        """Raise StudyError where all of the first trials have failed, with the same error, or a metric is missing."""
        if self._most is None:
            return
        if self._lacks_metric is not None:
            raise StudyError(
                f"search: stopped, {self._lacks_metric}; all others would fail like this: let the objective report it, "
                f"and go on with `hpo resume` (--allow-changes); or search under another study.name by what is "
                f"reported: study.metric, or study.metrics, study.limits and study.measured"
            )
        if self._errors is not None and len(self._errors) >= self._most:
            first = "trial" if self._most == 1 else f"{len(self._errors)} trials all"
            raise StudyError(
                f"search: stopped by study.stop_after_failures={self._most} (null = never): the first {first} failed "
                f"with the same error: {self._errors[0]}; the rest of the budget is kept: correct that, then start "
                f"another study, or go on with `hpo resume` (--allow-changes where the code has changed)"
            )


class StateRemover(Observer):
    """Keeps a training's state, here or in `artifacts`, until its outcome is recorded; longer where a rung follows."""

    def __init__(self, artifacts: UrlStore | None = None) -> None:
        self._artifacts = artifacts

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Delete the state of a task that has an outcome, unless it was stopped before its end.

        That of a failed one always, so that a retry does not go on from what the fault has left.
        """
        state, outcome = report.task.payload.resume_dir, report.outcome
        if outcome is None or state is None:
            return
        if outcome.error is not None or (outcome.stopped is None and trial.amount is None):
            _remove(state, self._artifacts)


class HostRecorder(Observer):
    """Lets the record have where each task was trained: at `host`, or where that is None, where its worker says."""

    def __init__(self, record: Record, host: Host | None = None) -> None:
        self._record, self._host = record, host

    def task_begun(self, task: Task) -> None:
        """Note the host of all tasks."""
        if self._host is not None:
            self._record.hosts[task.trial, task.index] = self._host

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Note what the worker says."""
        if report.host is not None:
            self._record.hosts[trial.number, report.task.index] = report.host


class CheckpointPruner(Observer):
    """Keeps the models of the best trials, those that are `finished` included, and deletes the others."""

    def __init__(self, checkpoints_dir: Path, keep: int, finished: History, artifacts: UrlStore | None = None) -> None:
        self._artifacts = artifacts
        self._dir = checkpoints_dir
        self._keep = keep
        self._best = finished.leaders(keep)

    def trial_finished(self, trial: Trial) -> None:
        """Delete the model that is no longer among the best: this one, or the one it displaces."""
        self.trials_finished([trial])

    def trials_finished(self, trials: Sequence[Trial], needed: Collection[int] = ()) -> None:
        """As `trial_finished` of several that are compared at once, some of them maybe trained further; keep `needed`.

        One after the other, one that was trained to its end would displace a better one that is not known to be yet.
        """
        complete = [trial for trial in trials if trial.state == "complete"]
        candidates = {trial.number: trial for trial in [*self._best, *complete]}
        self._best = leaders(candidates.values(), self._keep)
        kept = {*(trial.number for trial in self._best), *needed}
        for dropped in {*(trial.number for trial in trials), *candidates} - kept:
            _remove(f"{self._dir}/{checkpoint_name(dropped)}", self._artifacts)


def _remove(folder: str | Path, artifacts: UrlStore | None) -> None:
    # Most trials have none.
    if os.path.lexists(folder):
        shutil.rmtree(folder, ignore_errors=True)
    if artifacts is not None:
        artifacts.remove_folder(name_of(folder))
