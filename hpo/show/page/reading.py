"""Reads a study for those who look on: its status, what runs now, and of its record what is new; nothing is changed."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpo.errors import HpoError, first_line
from hpo.report.subject import Subject
from hpo.report.transfer import ScaleResults
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import RunningTask, Status, read_status
from hpo.study.notes import Notes
from hpo.study.results.after_search import further_trainings, join_trainings
from hpo.study.results.run import StudyRun
from hpo.study.view.from_status import view_of_status
from hpo.study.view.making import view_of
from hpo.study.view.next_steps import next_steps
from hpo.study.view.reader import Snapshot, StudyReader
from hpo.study.view.view import StudyView
from hpo.trials.record.record import Record
from hpo.trials.space.first_points import default_of
from hpo.trials.trial import Outcome, Trial


@dataclass(frozen=True)
class LiveStudy:
    """A study as it is now.

    Attributes:
        view: what its texts are made from.
        subject: what its figures are drawn from, as it was read last; None where its record was never read.
        changed: which of `status`, `tasks` and `record` are others than before.
    """

    snapshot: Snapshot
    view: StudyView
    subject: Subject | None = None
    changed: frozenset[str] = frozenset()

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes, unless somebody goes on with it; one that was moved away may come back."""
        return not self.view.goes_on and self.view.state != "unreadable"

    @property
    def workers(self) -> int:
        """How many workers the search has, as far as is known."""
        stretches = self.subject.stretches if self.subject else ()
        asked = stretches[-1].workers if stretches else 0
        return max([asked, *(task.worker + 1 for task in self.view.running)])


class PageReader:
    """Reads one study again and again, each time only what has changed."""

    def __init__(self, folder: StudyFolder) -> None:
        self._folder = folder
        self._looked: dict[str, Any] = {}
        self._reader: StudyReader | None = None
        self._study: StudyRun | None = None
        self._seen: LiveStudy | None = None

    def read(self) -> LiveStudy:
        """Return the study as it is now; what cannot be read says so, and nothing raises."""
        before, looked = self._seen, self._look()
        if before is not None and looked == self._looked:
            return replace(before, changed=frozenset())
        if looked["files"] != self._looked.get("files"):
            # Another record in the place of the one before, or none any more.
            self._reader = None
        self._looked = looked
        self._seen = self._read(before)
        return self._seen

    def _read(self, before: LiveStudy | None) -> LiveStudy:
        subject, study, snapshot = before.subject if before else None, self._study, None
        self._reader = self._reader or StudyReader(self._folder, self._folder.reference)
        try:
            snapshot = self._reader.snapshot()
            self._study = self._reader.study()
            view = view_of(self._study, snapshot.status, snapshot.tasks)
            subject = _subject(self._study, view, snapshot.tasks)
        except Exception as error:  # noqa: BLE001  # Damage causes errors of every kind, and is to be told.
            # It is tried again.
            self._reader, self._looked = None, {}
            snapshot = snapshot or Snapshot(read_status(self._folder), [])
            view = view_of_status(self._folder, snapshot.status, fault=_in_words(error, snapshot.status))
            view = replace(view, next=[*next_steps(view, None, self._folder)])
            if before is not None:
                view = replace(view, cautions=before.view.cautions, failures=before.view.failures)
        seen = LiveStudy(snapshot, view, subject)
        if before is None:
            return replace(seen, changed=frozenset({"status", "tasks", "record"}))
        is_other = {
            "status": snapshot.status != before.snapshot.status or view.fault != before.view.fault,
            "tasks": snapshot.tasks != before.snapshot.tasks,
            "record": study is not self._study or _number(view) != _number(before.view),
        }
        return replace(seen, changed=frozenset(name for name in is_other if is_other[name]))

    def _look(self) -> dict[str, Any]:
        """Return what tells whether something has changed, without reading it."""
        folder = self._folder
        database = folder.database_path
        return {
            "status": (*map(_stamp, (folder.status_path, folder.test_path)), folder.holder()),
            "tasks": _stamp(folder.running_path),
            "record": (_stamp(database), _stamp(database.with_name(f"{database.name}-wal"))),
            # Another record in the place of this one is read anew.
            "files": (_stamp(folder.config_path), _inode(database)),
        }


def _subject(study: StudyRun, view: StudyView, tasks: Sequence[RunningTask]) -> Subject:
    """Return what figures are drawn from: the trials with the curves so far of those that run, and the best of them."""
    config, space, record = study.config, study.space, study.record
    further, best = further_trainings(config, record), _number(view)
    searched = _with_curves(record, tasks)
    trials = join_trainings(searched, further)
    dispatch = config.dispatch
    return Subject(
        space=space,
        goal=record.goal,
        layout=record.layout,
        strategy=config.strategy["name"],
        trials=trials,
        winner=next((trial for trial in trials if trial.number == best), None),
        default=default_of(space, config),
        trainings=[*searched, *further],
        workers=dispatch.workers,
        gpus=dispatch.gpus_per_worker or 0.0,
        stretches=record.stretches,
        scale_results=ScaleResults.of(config, space, [*Notes(record).imports, *trials]),
        is_over=view.state == "ended",
    )


def _with_curves(record: Record, tasks: Sequence[RunningTask]) -> list[Trial]:
    trials = {trial.number: trial for trial in record.trials()}
    for task in tasks:
        trial = trials.get(task.trial)
        if trial is not None and trial.state == "running" and task.task not in trial.outcomes and task.curve:
            axis = "epoch" if "epoch" in task.point else "step"
            curve = [{axis: place, record.goal.metric: value} for place, value in task.curve]
            trials[task.trial] = replace(trial, outcomes={**trial.outcomes, task.task: Outcome(curve=curve)})
    return list(trials.values())


def _in_words(error: Exception, status: Status) -> str | None:
    """Return why a study cannot be read; None where that is none, as it is just starting."""
    if status.phase == "starting":
        return None
    return f"{'' if isinstance(error, HpoError) else f'{type(error).__name__}: '}{first_line(error)}"


def _number(view: StudyView) -> int | None:
    """Return the number of the best, which a status may change."""
    return None if view.best is None else view.best.trial


def _stamp(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        there = path.stat()
        return there.st_mtime_ns, there.st_size
    return None


def _inode(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_ino
    return None
