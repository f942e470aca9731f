"""Observers of a search: their base class, and observers that check failures, remove checkpoints and record hosts."""

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

_GO_ON = (
    "run `hpo resume` (with --allow-changes if the code has changed; for a function from Python, call "
    "hpo.search(..., allow_changes=True))"
)
_START_AGAIN = "choose another study.name, or first delete this study with `hpo remove`"


class Observer:
    """Base class: reacts to the events of a search after they are recorded, without influence on the search.

    By default, an observer does nothing.
    """

    def trial_opened(self, trial: Trial) -> None:
        """React to the start of a trial, or to the continuation of an interrupted trial."""

    def task_begun(self, task: Task) -> None:
        """React to a task that a worker begins."""

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """React to a worker's report: a point of a learning curve, or an outcome."""

    def trial_finished(self, trial: Trial) -> None:
        """React to the end of a trial: its last outcome, or a decision to stop the trial between two tasks."""

    def user_acted(self, action: UserAction) -> None:
        """React to a user action after it has taken effect."""

    def search_ended(self) -> None:
        """React to the end of the search, before the trainings that follow the search."""

    def followed_up(self, what: str, num_ended: int, num_all: int) -> None:
        """React to the progress of trainings after the search: `num_ended` of `num_all` have ended.

        `what` names these trainings.
        """


class FirstFailures(Observer):
    """Ends a search if its first trials all fail with the same error.

    The argument `most` is the number of failures that end the search. Only trials that end in this run count.

    The search also ends after a single training that reports values, but not the study's metric. This second rule
    applies only until a training of the study succeeds. If `is_scored` is true, a training succeeded in an earlier run,
    and the second rule never applies.

    If `most` is None, neither rule applies, and failures never end the search.
    """

    def __init__(self, most: int | None, is_scored: bool = False) -> None:
        self._most = most
        self._errors: list[str | None] | None = []
        self._is_scored = is_scored
        self._lacks_metric: str | None = None

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Remember whether any training has succeeded so far.

        Before the first success, also remember the error of a training that did not report its metric.
        """
        if report.outcome is None or self._is_scored:
            return
        self._is_scored = report.outcome.error is None
        if report.lacks_metric:
            self._lacks_metric = f"trial {trial.number} failed: {report.outcome.error}"

    def trial_finished(self, trial: Trial) -> None:
        """Remember whether all trials so far have failed with the same error."""
        if self._errors is None:
            return
        self._errors.append(trial.error)
        if trial.state != "failed" or trial.error != self._errors[0]:
            self._errors = None

    def refuse_more(self) -> None:
        """Raise StudyError if the first trials all failed with the same error.

        Also raise StudyError if a training did not report a metric of the study. The search calls this method before it
        begins more tasks.
        """
        if self._most is None:
            return
        if self._lacks_metric is not None:
            raise StudyError(
                f"search: stopped, because {self._lacks_metric}; all other trials would fail in the same way. To "
                f"continue this study, report the missing value in the objective, and {_GO_ON}. To keep the objective "
                f"as it is, let study.metric, study.limits and study.measured name only values that the objective "
                f"reports, and {_START_AGAIN}"
            )
        if self._errors is not None and len(self._errors) >= self._most:
            first = "trial failed" if self._most == 1 else f"{len(self._errors)} trials all failed with the same error"
            raise StudyError(
                f"search: stopped by study.stop_after_failures={self._most} (null = never), because the first {first}: "
                f"{self._errors[0]}. Fix the error, and {_START_AGAIN}. Or, to use the rest of this study's "
                f"budget, {_GO_ON}"
            )


class StateRemover(Observer):
    """Removes a training's checkpoint from the disk and from `artifacts` when no later training can need it."""

    def __init__(self, artifacts: UrlStore | None = None) -> None:
        self._artifacts = artifacts

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Remove the checkpoint of a task that has ended.

        Keep the checkpoint of a task that was stopped early, or whose trial may continue on a higher rung. Always
        remove the checkpoint of a failed task, so that a retry does not continue from a state damaged by the error.
        """
        state, outcome = report.task.payload.resume_dir, report.outcome
        if outcome is None or state is None:
            return
        if outcome.error is not None or (outcome.stopped is None and trial.amount is None):
            _remove(state, self._artifacts)


class HostRecorder(Observer):
    """Records the host of each task.

    If this process trains all tasks, `host` is this process's host. If `host` is None, each worker reports its host.
    """

    def __init__(self, record: Record, host: Host | None = None) -> None:
        self._record, self._host = record, host

    def task_begun(self, task: Task) -> None:
        """Record this process's host as the host of the task if this process trains all tasks."""
        if self._host is not None:
            self._record.hosts[task.trial, task.index] = self._host

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """If the worker reports its host, record the host."""
        if report.host is not None:
            self._record.hosts[trial.number, report.task.index] = report.host


class CheckpointPruner(Observer):
    """Keeps the models of the `keep` best trials and deletes the others.

    `finished` holds the trials that ended in earlier runs of the search. They can be among the `keep` best trials, too.
    """

    def __init__(self, checkpoints_dir: Path, keep: int, finished: History, artifacts: UrlStore | None = None) -> None:
        self._artifacts = artifacts
        self._dir = checkpoints_dir
        self._keep = keep
        self._best = finished.leaders(keep)

    def trial_finished(self, trial: Trial) -> None:
        """Delete this trial's model if the trial is not one of the `keep` best trials (see the class).

        If the trial displaces another trial from the `keep` best trials, delete the model of the displaced trial.
        """
        self.trials_finished([trial])

    def trials_finished(self, trials: Sequence[Trial], needed: Collection[int] = ()) -> None:
        """Delete the models of all trials, except the `keep` best trials (see the class) and the trials in `needed`.

        If several trials are trained further after the search, make a single call with all these trials. For
        example, suppose that `keep` is 1, and trial B is better than trial A. In a call with A alone, B still counts
        as partly trained. Then A ranks before B, so the call deletes the model of B.
        """
        complete = [trial for trial in trials if trial.state == "complete"]
        candidates = {trial.number: trial for trial in [*self._best, *complete]}
        self._best = leaders(candidates.values(), self._keep)
        retained = {*(trial.number for trial in self._best), *needed}
        for dropped in {*(trial.number for trial in trials), *candidates} - retained:
            _remove(f"{self._dir}/{checkpoint_name(dropped)}", self._artifacts)


def _remove(folder: str | Path, artifacts: UrlStore | None) -> None:
    # Check first, because most trials have no such folder.
    if os.path.lexists(folder):
        shutil.rmtree(folder, ignore_errors=True)
    if artifacts is not None:
        artifacts.remove_folder(name_of(folder))
