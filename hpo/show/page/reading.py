"""Reads a study for those who look on: its status, what runs now, and of its record what is new; nothing is changed."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpo.config.study_config import StudyConfig
from hpo.errors import HpoError, first_line
from hpo.report.subject import Subject
from hpo.report.transfer import Climb
from hpo.study.basis.default import default_of
from hpo.study.files.folder import StudyFolder, short_path
from hpo.study.files.running import RunningTask, read_running
from hpo.study.files.status import Status
from hpo.study.notes import Notes
from hpo.study.view.latest import latest_status
from hpo.study.view.read_only import ReadOnlyStudy
from hpo.study.winner.choosing import choose
from hpo.study.winner.full_training import further_trainings, join_trainings
from hpo.trials.ranking import front
from hpo.trials.record.own_file import DamagedRecordError
from hpo.trials.record.record import Record
from hpo.trials.trial import Outcome, Trial


@dataclass(frozen=True)
class Seen:
    """A study as it is now.

    Attributes:
        subject: what its figures are drawn from, as it was read last; None where its record was never read.
        fault: why the record cannot be read, in a line.
        changed: which of `status`, `tasks` and `record` are others than before.
    """

    folder: StudyFolder
    status: Status
    tasks: Sequence[RunningTask] = ()
    subject: Subject | None = None
    fault: str | None = None
    changed: frozenset[str] = frozenset()

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes, unless somebody goes on with it; one that was moved away may come back."""
        return not self.status.goes_on and self.status.state != "unreadable"

    @property
    def workers(self) -> int:
        """How many workers the search has, as far as is known."""
        stretches = self.subject.stretches if self.subject else ()
        asked = stretches[-1].workers if stretches else 0
        return max([asked, *(task.worker + 1 for task in self.tasks)])


class PageReader:
    """Reads one study again and again, each time only what has changed."""

    def __init__(self, folder: StudyFolder) -> None:
        self._folder = folder
        self._looked: dict[str, Any] = {}
        self._opened: ReadOnlyStudy | None = None
        self._seen: Seen | None = None

    def read(self) -> Seen:
        """Return the study as it is now; what cannot be read says so, and nothing raises."""
        before, looked = self._seen, self._look()
        if before is not None and looked == self._looked:
            return replace(before, changed=frozenset())
        if looked["files"] != self._looked.get("files"):
            # Another record in the place of the one before, or none any more.
            self._opened = None
        self._looked = looked
        self._seen = self._read(before) if self._folder.exists else self._gone()
        return self._seen

    def _read(self, before: Seen | None) -> Seen:
        folder, subject = self._folder, before.subject if before else None
        status, tasks, fault, has_more = latest_status(folder), list[RunningTask](), None, self._opened is None
        try:
            tasks = read_running(folder)
            if self._opened is None:
                self._opened = ReadOnlyStudy.at(folder)
            else:
                has_more = self._opened.record.read_again()
            subject = _subject(self._opened, status, tasks)
        except Exception as error:  # noqa: BLE001  # Damage causes errors of every kind, and is to be told.
            # It is tried again.
            self._opened, self._looked, fault = None, {}, _in_words(folder, error)
        seen = Seen(folder, status, tasks, subject, fault)
        if before is None:
            return replace(seen, changed=frozenset({"status", "tasks", "record"}))
        is_other = {
            "status": status != before.status or fault != before.fault,
            "tasks": tasks != before.tasks,
            "record": has_more or _number(subject) != _number(before.subject),
        }
        return replace(seen, changed=frozenset(name for name in is_other if is_other[name]))

    def _gone(self) -> Seen:
        status = Status(name=self._folder.path.name, state="unreadable", error=f"there is no study at {self._folder}")
        return Seen(self._folder, status, changed=frozenset({"status", "tasks"}))

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


def _subject(seen: ReadOnlyStudy, status: Status, tasks: Sequence[RunningTask]) -> Subject:
    """Return what figures are drawn from: the trials with the curves so far of those that run, and the best of them."""
    config, space, record = seen.config, seen.space, seen.record
    further = further_trainings(config, record)
    searched = _with_curves(record, tasks)
    trials = join_trainings(searched, further)
    dispatch = config.dispatch
    return Subject(
        space=space,
        goal=record.goal,
        layout=record.layout,
        strategy=config.strategy["name"],
        trials=trials,
        winner=_best(config, record, trials, status),
        default=default_of(space, config),
        trainings=[*searched, *further],
        workers=dispatch.workers,
        gpus=dispatch.gpus_per_worker or 0.0,
        stretches=record.stretches,
        climb=Climb.of(config, space, [*Notes(record).imports, *trials]),
        is_over=status.state == "ended",
    )


def _best(config: StudyConfig, record: Record, trials: Sequence[Trial], status: Status) -> Trial | None:
    """Return the winner, as who ran the study has chosen it; before that the best so far."""
    if status.state == "ended" and status.best is not None:
        return next((trial for trial in trials if trial.number == status.best), None)
    first = front(trials)
    if not first:
        return None
    return choose(first, record.goal, config.study.choose) if len(record.goal.metrics) > 1 else first[0]


def _with_curves(record: Record, tasks: Sequence[RunningTask]) -> list[Trial]:
    trials = {trial.number: trial for trial in record.trials()}
    for task in tasks:
        trial = trials.get(task.trial)
        if trial is not None and trial.state == "running" and task.task not in trial.outcomes and task.curve:
            axis = "epoch" if "epoch" in task.point else "step"
            curve = [{axis: place, record.goal.metric: value} for place, value in task.curve]
            trials[task.trial] = replace(trial, outcomes={**trial.outcomes, task.task: Outcome(curve=curve)})
    return list(trials.values())


def _in_words(folder: StudyFolder, error: Exception) -> str:
    is_damage = isinstance(error, DamagedRecordError)
    if isinstance(error, HpoError) and not is_damage:
        return first_line(error)
    path = short_path(folder.database_path)
    if not path.exists():
        return f"the record, {path}, is missing: a published study has none, and its report has what it held"
    text = first_line(error) if is_damage else f"{path} cannot be read: {type(error).__name__}: {first_line(error)}"
    return f"{text}; where it is damaged, `hpo resume {folder.reference}` replaces it by its backup, if that is sound"


def _number(subject: Subject | None) -> int | None:
    """Return the number of the best, which a status may change."""
    return None if subject is None or subject.winner is None else subject.winner.number


def _stamp(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        there = path.stat()
        return there.st_mtime_ns, there.st_size
    return None


def _inode(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_ino
    return None
