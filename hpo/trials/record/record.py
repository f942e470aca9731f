"""The study's record: every trial and every outcome is written here before it is shown."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from hpo.machine import Host
from hpo.trials.goal import Goal, finished, judged_by
from hpo.trials.history import History
from hpo.trials.record.user_actions import AddedPoint, RecordedAction
from hpo.trials.space.dimensions import as_values
from hpo.trials.space.space import Point
from hpo.trials.trial import Outcome, Proposal, State, TaskLayout, Trial

# Its number in the study; its number in Optuna is another where other programs write trials, too.
NUMBER = "number"
# Every trial of ours has it, and no other program's.
ROUND = "round"
# The id of its study.
STUDY = "study"


def is_of_study(attributes: Mapping[str, Any], study: str | None) -> bool:
    """Return whether these are attributes of a trial of the study with this id: others may copy those of another."""
    return NUMBER in attributes and attributes.get(STUDY) == study


_COST, _LEARNED, _RETRY_OF = "cost", "learned", "retry_of"
EndedBy = Literal["trials", "minutes", "stop_without_gain", "target", "space", "callback", "user"]

# How far a trial was trained, and from which; see `Proposal`.
_AMOUNTS = ("amount", "continues", "trained")
# Of each task, after its name.
_HOST = "_host"

# What a new study writes first and last: a driver that died between them left a study that is not whole.
FIRST, LAST = "imports", "id"
# The number of its form.
FORM = "format"

T = TypeVar("T")


class Note(Generic[T]):
    """A note as an attribute of a record, its rows, or a view of them: to read it reads the note, to set it writes it.

    `read` returns the value of what was written, of None where nothing was; `write` what is written, JSON-able.
    """

    def __init__(
        self, key: str, read: Callable[[Any], T] = lambda noted: noted, write: Callable[[T], Any] = lambda value: value
    ) -> None:
        self.key = key
        self._read = read
        self._write = write

    def __get__(self, holder: Any, owner: Any) -> T:
        return self._read(holder.read_note(self.key))

    def __set__(self, holder: Any, value: T) -> None:
        holder.note(self.key, self._write(value))


@dataclass(frozen=True)
class Stretch:
    """A time in which the search ran without interruption; `start`, of its first task, in seconds since the epoch."""

    start: float
    workers: int


@dataclass(frozen=True)
class Ended:
    """The budget that ended a search, None while it runs; its seconds without pauses; `stop_without_gain` of then."""

    by: EndedBy | None
    seconds: float
    limit: int | None = 0


@dataclass(frozen=True)
class CallbackCalls:
    """With how many ends of trials, in the order of the clock, callbacks are done; `before` there was one, with none.

    `before` has the numbers of the trials that had ended then.
    """

    before: Sequence[int]
    ends: int = 0


@dataclass(frozen=True)
class Asked:
    """A trial that was asked for and not told yet: when, in seconds since the epoch, and the points of its curve.

    `place` is its place among those open at once, from 1.
    """

    time: float
    place: int
    curve: Sequence[Mapping[str, float]] = ()


class Rows:
    """The storage of a record: here the memory of this process alone, for searches over tables and for tests."""

    def __init__(self) -> None:
        self._noted: dict[str, Any] = {}

    def open(self, number: int, point: Point, attributes: Mapping[str, Any]) -> None:
        """Write a running trial."""

    def add(self, number: int, attributes: Mapping[str, Any]) -> None:
        """Write more attributes of a trial."""

    def close(
        self,
        number: int,
        state: State,
        scores: Sequence[float],
        attributes: Mapping[str, Any],
        constraints: Mapping[str, float],
    ) -> None:
        """Write the last attributes, then the scores (none of a failed trial) and final state.

        `constraints` says how far a complete trial is beyond each limit, for other programs: above 0 is not kept.
        """

    def read(self) -> Iterable[tuple[int, Point, State, Mapping[str, Any]]]:
        """Return number, point, state and attributes of every trial, in any order."""
        return ()

    def queued(self) -> Iterable[tuple[int, Mapping[str, Any]]]:
        """Return number and parameters of the trials that another program asked for and this has not returned yet."""
        return ()

    def note(self, key: str, value: Any) -> None:
        """Write a JSON-able value of the study."""
        self._noted[key] = value

    def read_note(self, key: str) -> Any:
        """Return a value of the study; None where it is not there."""
        return self._noted.get(key)

    def dispose(self) -> None:
        """Close connections."""


class Record:
    """The truth about a study.

    Trials are opened in the order of proposal, which is that of their numbers. Each outcome is written the moment
    it arrives, under its task's name (`fold_0`); the last outcome closes the trial. A running trial in a study that no
    driver runs was interrupted: its missing tasks are run again.
    """

    # In order.
    stretches = Note[list[Stretch]](
        "stretches", lambda noted: [Stretch(**each) for each in noted or ()], lambda stretches: [*map(vars, stretches)]
    )
    added = Note[list[AddedPoint]](
        "added",
        lambda noted: [AddedPoint(**each | {"point": as_values(each["point"])}) for each in noted or ()],
        lambda added: [each.to_dict() for each in added],
    )
    actions = Note[list[RecordedAction]](
        "actions",
        lambda noted: [RecordedAction.from_dict(each) for each in noted or ()],
        lambda actions: [action.to_dict() for action in actions],
    )
    ended = Note[Ended | None]("ended", lambda noted: Ended(**noted) if noted else None, vars)
    # None where there was no callback yet.
    called = Note[CallbackCalls | None]("called", lambda noted: CallbackCalls(**noted) if noted else None, vars)
    # By the trial's number.
    asked = Note[dict[int, Asked]](
        "asked",
        lambda noted: {int(number): Asked(**each) for number, each in (noted or {}).items()},
        lambda asked: {str(number): vars(each) for number, each in asked.items()},
    )

    def __init__(self, rows: Rows, goal: Goal, layout: TaskLayout) -> None:
        self._rows = rows
        self.goal = goal
        self.layout = layout
        self._has_begun = False
        # Where tasks are trained, as far as it is known, by trial and task; each is written with its outcome.
        self.hosts: dict[tuple[int, int], Host] = {}
        self._trials: dict[int, Trial] = {}
        self.read_again()

    def read_again(self) -> bool:
        """Take in what the rows return now, of those that another process writes; return whether that is something."""
        has_changed = False
        for row in self._rows.read():
            # At once, since later ones continue it.
            self._trials[row[0]] = self._trial(*row)
            has_changed = True
        return has_changed

    def trials(self) -> list[Trial]:
        """Return all trials in the order of their numbers, interrupted ones with their outcomes so far."""
        return [self._trials[number] for number in sorted(self._trials)]

    def trial(self, number: int) -> Trial:
        """Return the trial of this number."""
        return self._trials[number]

    def history(self) -> History:
        """Return the finished trials in the order of their numbers."""
        return History(trial for trial in self.trials() if trial.state != "running")

    def open_trial(
        self,
        round_number: int,
        proposal: Proposal,
        learned: Sequence[int] = (),
        cost_of: Callable[[Trial], float] | None = None,
    ) -> Trial:
        """Write that this point is being evaluated, and return its trial with the next number.

        `learned` has the numbers of the trials that became known since the last proposal; `cost_of` returns the cost of
        one unit of the trial's training.
        """
        number = len(self._trials)
        amounts = {name: getattr(proposal, name) for name in _AMOUNTS if proposal.amount is not None}
        noted = amounts if proposal.retry_of is None else {**amounts, _RETRY_OF: proposal.retry_of}
        trial = self.goal.trial(number, round_number, proposal.point, **noted, learned=tuple(learned))
        attributes: dict[str, Any] = {ROUND: round_number, **noted}
        if cost_of is not None:
            trial = replace(trial, cost=cost_of(trial))
            attributes[_COST] = trial.cost
        if learned:
            attributes[_LEARNED] = list(learned)
        self._rows.open(number, proposal.point, attributes)
        self._trials[number] = trial
        return trial

    def add_outcome(self, number: int, index: int, outcome: Outcome) -> Trial:
        """Write a task's outcome, once, and return the trial; the last task finishes it."""
        trial = self._trials[number]
        if index in trial.outcomes or trial.state != "running":
            return trial
        outcomes = {**trial.outcomes, index: outcome}
        name = self.layout.name(index)
        written: dict[str, Any] = {name: outcome.to_dict()}
        if (host := self.hosts.get((number, index))) is not None:
            written[f"{name}{_HOST}"] = vars(host)
        if len(outcomes) == self.layout.size:
            trial = self._finished(trial, outcomes)
            self._rows.close(number, trial.state, self._scores(trial), written, self.goal.beyond(trial))
        else:
            trial = replace(trial, outcomes=outcomes)
            self._rows.add(number, written)
        self._trials[number] = trial
        return trial

    def stop(self, number: int) -> Trial:
        """Write that a trial gets no further tasks, and return it, finished with the outcomes that it has."""
        trial = self._trials[number]
        trial = self._finished(trial, trial.outcomes, is_stopped=True)
        self._rows.close(number, trial.state, self._scores(trial), {}, {})
        self._trials[number] = trial
        return trial

    def earlier(self, trial: Trial, index: int) -> list[Mapping[str, Any]]:
        """Return the points that a task continues: those of the trials before, from the first on."""
        points: list[Mapping[str, Any]] = []
        while trial.continues is not None:
            trial = self._trials[trial.continues]
            points[:0] = trial.outcomes[index].curve if index in trial.outcomes else ()
        return points

    def _finished(self, trial: Trial, outcomes: Mapping[int, Outcome], is_stopped: bool = False) -> Trial:
        return finished(trial, outcomes, self.goal, is_stopped, partial(self.earlier, trial))

    def note(self, key: str, value: Any) -> None:
        """Store a JSON-able value with the study, such as the outcome of the final training."""
        self._rows.note(key, value)

    def read_note(self, key: str) -> Any:
        """Return what was stored under the key; None when nothing was."""
        return self._rows.read_note(key)

    def write_added(self, added: Iterable[AddedPoint]) -> None:
        """Add points that a user gave, before they have an effect."""
        self.added = [*self.added, *added]

    def queued(self) -> list[tuple[int, Mapping[str, Any]]]:
        """Return what another program asked for since the last call: its trials' numbers and parameters."""
        return list(self._rows.queued())

    def begin_stretch(self, workers: int) -> None:
        """Write that so many workers begin to train; once for this process, which is not interrupted."""
        if not self._has_begun:
            self.stretches = [*self.stretches, Stretch(time.time(), workers)]
        self._has_begun = True

    def copy(self) -> "Record":
        """Return a copy in the memory of this process alone: for a look ahead."""
        copied = memory_record(self.goal, self.layout, self.trials())
        copied.added, copied.actions = self.added, self.actions
        return copied

    def judged_by(self, goal: Goal) -> "Record":
        """Return the record with its complete trials judged by another goal: by other limits on what they returned."""
        if goal == self.goal:
            return self
        judged = memory_record(goal, self.layout, (judged_by(goal, trial) for trial in self.trials()))
        judged._rows, judged.hosts = self._rows, self.hosts
        return judged

    def close(self) -> None:
        """Close the connection."""
        self._rows.dispose()

    def _scores(self, trial: Trial) -> Sequence[float]:
        """Return the trial's score by each metric, as far as all of its tasks reported them."""
        if trial.state == "complete":
            return [*self.goal.scores(trial.losses).values()]
        return () if trial.score is None or len(self.goal.metrics) > 1 else [trial.score]

    def _trial(self, number: int, point: Point, state: State, attributes: Mapping[str, Any]) -> Trial:
        names = {self.layout.name(index): index for index in range(self.layout.size)}
        outcomes = {names[name]: Outcome.from_dict(attributes[name]) for name in names if name in attributes}
        for name, index in names.items():
            if (host := attributes.get(f"{name}{_HOST}")) is not None:
                self.hosts[number, index] = Host(**host)
        noted = {name: attributes[name] for name in (*_AMOUNTS, _COST, _RETRY_OF) if name in attributes}
        learned = tuple(attributes.get(_LEARNED, ()))
        trial = self.goal.trial(number, attributes[ROUND], point, outcomes=outcomes, learned=learned, **noted)
        has_failed = any(outcome.error for outcome in outcomes.values())
        is_cut = (state == "failed" and has_failed) or (state == "stopped" and outcomes)
        if len(outcomes) < self.layout.size and not is_cut:
            # Whatever the state: another program may have told a result of it.
            return trial
        return self._finished(trial, outcomes, is_stopped=state == "stopped")


def memory_record(goal: Goal, layout: TaskLayout, trials: Iterable[Trial] = ()) -> Record:
    """Return a record of these trials in the memory of this process: for searches over tables, and a look ahead."""
    record = Record(Rows(), goal, layout)
    record._trials = {trial.number: trial for trial in trials}
    return record
