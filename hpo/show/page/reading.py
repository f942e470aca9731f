"""Reads a study for viewers without changing it: its status, its running tasks, and new entries of its record."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpo.errors import HpoError, first_line
from hpo.files import file_stamp
from hpo.report.subject import Subject
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import RunningTask, Status, read_status
from hpo.study.results.after_search import join_trainings
from hpo.study.results.run import StudyRun
from hpo.study.view.from_status import view_of_status
from hpo.study.view.making import view_of
from hpo.study.view.next_steps import next_steps
from hpo.study.view.reader import Snapshot, StudyReader
from hpo.study.view.view import StudyView
from hpo.trials.record.record import Record
from hpo.trials.trial import Outcome, Trial


@dataclass(frozen=True)
class LiveStudy:
    """The current state of a study.

    Attributes:
        view: the source of the page's texts.
        subject: the source of the page's figures, from the last successful reading; None = no reading has succeeded.
        changed: which of `status`, `tasks` and `record` have changed since the last reading.
    """

    snapshot: Snapshot
    view: StudyView
    subject: Subject | None = None
    changed: frozenset[str] = frozenset()

    @property
    def is_over(self) -> bool:
        """Whether the study is readable and cannot get a new trial. An unreadable study may become readable again."""
        return not self.view.goes_on and self.view.state != "unreadable"

    @property
    def workers(self) -> int:
        """The number of workers of the search: the recorded number, or more if running tasks show more workers.

        The number is 0 if no number is recorded and no task runs.
        """
        stretches = self.subject.stretches if self.subject else ()
        configured = stretches[-1].workers if stretches else 0
        return max([configured, *(task.worker + 1 for task in self.view.running)])


class PageReader:
    """Reads one study repeatedly; each time it reads only the changes."""

    def __init__(self, folder: StudyFolder) -> None:
        self._folder = folder
        self._files: Any = None
        self._stamps: Any = None
        self._reader: StudyReader | None = None
        self._study: StudyRun | None = None
        self._live: LiveStudy | None = None

    def read(self) -> LiveStudy:
        """Return the current state of the study; for an unreadable study, the state's `view.fault` has the reason."""
        before, folder = self._live, self._folder
        database = folder.database_path
        log = database.with_name(f"{database.name}-wal")
        paths = (folder.status_path, folder.test_path, folder.running_path, database, log)
        files = (file_stamp(folder.config_path), _inode(database))
        stamps = (files, folder.holder(), *map(file_stamp, paths))
        if before is not None and stamps == self._stamps:
            return replace(before, changed=frozenset())
        if files != self._files:
            # Other files have replaced the configuration or the record, or they are gone. Read both from the start.
            self._reader = None
        self._files, self._stamps = files, stamps
        self._live = self._read(before)
        return self._live

    def _read(self, before: LiveStudy | None) -> LiveStudy:
        subject, study, snapshot = before.subject if before else None, self._study, None
        self._reader = self._reader or StudyReader(self._folder, self._folder.reference)
        try:
            snapshot = self._reader.snapshot()
            self._study = self._reader.study()
            view = view_of(self._study, snapshot.status, snapshot.tasks)
            subject = _subject(self._study, view, snapshot.tasks)
        except Exception as error:  # noqa: BLE001  # Damage causes any kind of error, and the page must show it.
            # Read everything again next time.
            self._reader, self._stamps = None, None
            snapshot = snapshot or Snapshot(read_status(self._folder), [])
            view = view_of_status(self._folder, snapshot.status, fault=_fault_text(error, snapshot.status))
            view = replace(view, next=[*next_steps(view, None, self._folder)])
            if before is not None:
                view = replace(view, cautions=before.view.cautions, failures=before.view.failures)
        live = LiveStudy(snapshot, view, subject)
        if before is None:
            return replace(live, changed=frozenset({"status", "tasks", "record"}))
        # At a study's end, another trial may become the best without a new entry in the record.
        is_changed = {
            "status": snapshot.status != before.snapshot.status or view.fault != before.view.fault,
            "tasks": snapshot.tasks != before.snapshot.tasks,
            "record": study is not self._study or _best_number(view) != _best_number(before.view),
        }
        return replace(live, changed=frozenset(name for name in is_changed if is_changed[name]))


def _subject(study: StudyRun, view: StudyView, tasks: Sequence[RunningTask]) -> Subject:
    """Return the source of the figures. Running trials have their curves so far; `winner` is the best trial so far."""
    searched, best = _with_curves(study.record, tasks), _best_number(view)
    trials = join_trainings(searched, study.further)
    winner = next((trial for trial in trials if trial.number == best), None)
    return replace(Subject.of_run(study, searched, trials, winner), is_over=view.state == "ended")


def _with_curves(record: Record, tasks: Sequence[RunningTask]) -> list[Trial]:
    trials = {trial.number: trial for trial in record.trials()}
    for task in tasks:
        trial = trials.get(task.trial)
        if trial is not None and trial.state == "running" and task.task not in trial.outcomes and task.curve:
            axis = "epoch" if "epoch" in task.point else "step"
            curve = [{axis: place, record.goal.metric: value} for place, value in task.curve]
            trials[task.trial] = replace(trial, outcomes={**trial.outcomes, task.task: Outcome(curve=curve)})
    return list(trials.values())


def _fault_text(error: Exception, status: Status) -> str | None:
    """Return the reason why a study is unreadable; None if the study is just starting."""
    if status.phase == "starting":
        return None
    return f"{'' if isinstance(error, HpoError) else f'{type(error).__name__}: '}{first_line(error)}"


def _best_number(view: StudyView) -> int | None:
    """Return the best trial's number; None if there is no best trial."""
    return None if view.best is None else view.best.trial


def _inode(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_ino
    return None
