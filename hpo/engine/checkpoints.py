"""Observers that keep training states and models for as long as they are needed, and where each task was trained."""

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from hpo.engine.observers import Observer
from hpo.trials.history import History
from hpo.trials.ranking import leaders
from hpo.trials.record.host import Site
from hpo.trials.record.record import Record
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.store.url import UrlStore, name_of
from hpo.workers.training.payload import Task
from hpo.workers.training.task_builder import checkpoint_name


class StateKeeper(Observer):
    """Keeps a training's state, here or in `artifacts`, until its outcome is recorded; longer where a rung follows."""

    def __init__(self, artifacts: UrlStore | None = None) -> None:
        self._artifacts = artifacts

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Delete the state of a task that has an outcome, unless it was stopped before its end."""
        state, outcome = report.task.payload.resume_dir, report.outcome
        if outcome is not None and outcome.stopped is None and trial.amount is None and state is not None:
            _remove(state, self._artifacts)


class SiteKeeper(Observer):
    """Lets the record have where each task was trained: at `site`, or where that is None, where its worker says."""

    def __init__(self, record: Record, site: Site | None = None) -> None:
        self._record, self._site = record, site

    def task_begun(self, task: Task) -> None:
        """Note the site of all tasks."""
        if self._site is not None:
            self._record.sites[task.trial, task.index] = self._site

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Note what the worker says."""
        if report.site is not None:
            self._record.sites[trial.number, report.task.index] = report.site


class CheckpointKeeper(Observer):
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
            _remove(self._dir / checkpoint_name(dropped), self._artifacts)


def _remove(folder: str | Path, artifacts: UrlStore | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if artifacts is not None:
        artifacts.remove_folder(name_of(folder))
