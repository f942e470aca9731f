"""The record of a study: its trials, their outcomes, and notes, each written before it is displayed."""

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

# The trial attribute that holds the trial's number in the study. Optuna's number of the trial is different if other
# programs write trials, too.
NUMBER = "number"
# The trial attribute that holds the number of the proposal; other programs' trials do not have it.
ROUND = "round"
# The trial attribute that holds the id of the study.
STUDY = "study"


def is_of_study(attributes: Mapping[str, Any], study: str | None) -> bool:
    """Return whether a trial with these attributes belongs to the study with this id.

    A trial that another program copied from a different study does not belong to this study.
    """
    return isinstance(attributes.get(NUMBER), int) and attributes.get(STUDY) == study


_COST, _LEARNED, _RETRY_OF = "cost", "learned", "retry_of"
EndedBy = Literal["trials", "minutes", "stop_without_gain", "target", "space", "callback", "user"]

# The trial attributes that hold how far a trial is trained and what it continues; see `Proposal`.
AMOUNTS = ("amount", "continues", "trained")
# All trial attributes except those of its tasks.
OWN_ATTRIBUTES = frozenset({NUMBER, ROUND, STUDY, _COST, _LEARNED, _RETRY_OF, *AMOUNTS})
# The attribute that holds a task's host is the task's name with this suffix.
_HOST = "_host"

# The first and the last note that are written to a new study. If only the first exists, the driver died while it
# created the study.
FIRST, LAST = "imports", "id"
# The note that holds the number of the file format.
FORM = "format"

T = TypeVar("T")


class Note(Generic[T]):
    """A descriptor for a note of a study: reading the attribute reads the note, setting the attribute writes it.

    Args:
        key: the key of the note.
        read: converts the stored note to the value of the attribute; gets None if there is no note.
        write: converts a value to its stored, JSON-able form.
    """

    def __init__(
        self, key: str, read: Callable[[Any], T] = lambda note: note, write: Callable[[T], Any] = lambda value: value
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
    """A period in which a study trains without interruption.

    Attributes:
        start: the start of the period's first task, in seconds since the epoch.
        workers: the number of workers.
    """

    start: float
    workers: int


@dataclass(frozen=True)
class Ended:
    """The end of a search.

    Attributes:
        by: what ended the search; None = the search has not ended.
        seconds: the duration of the search so far, without interruptions.
        limit: the number of trials without gain after which the search had to end, from `Rules.stop_without_gain`;
            None = no such limit.
    """

    by: EndedBy | None
    seconds: float
    limit: int | None = 0


@dataclass(frozen=True)
class CallbackCalls:
    """The progress of the callbacks of a study.

    Attributes:
        before: the numbers of the trials that had ended before the study got a callback.
        ends: the number of ended trials handled so far; trials end in the order of the clock.
    """

    before: Sequence[int]
    ends: int = 0


@dataclass(frozen=True)
class Asked:
    """An open trial of ask-and-tell.

    Attributes:
        time: the time of the trial's `ask`, in seconds since the epoch.
        place: the lowest number from 1 that no other open trial had at that time. The record stores it as the number
            of the trial's worker.
        curve: the points of the learning curve reported so far.
    """

    time: float
    place: int
    curve: Sequence[Mapping[str, float]] = ()


class Rows:
    """Base class of storages for a record's trials and notes.

    The base class itself stores only the notes, in memory. A record in memory (see `memory_record`) uses the base
    class, because `Record` itself holds the trials.
    """

    def __init__(self) -> None:
        self._memory: dict[str, Any] = {}

    def open(self, number: int, point: Point, attributes: Mapping[str, Any]) -> None:
        """Write a new trial, which is running."""

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
        """Write more attributes of a trial, then its scores (none if it failed) and its final state.

        `constraints` holds how far a complete trial is beyond each limit; a value above 0 means that the trial exceeds
        the limit. Only other programs use the stored constraints.
        """

    def read(self) -> Iterable[tuple[int, Point, State, Mapping[str, Any]]]:
        """Return the number, point, state and attributes of each trial that is new or may have changed.

        A trial comes after the trial that it continues.
        """
        return ()

    def queued(self) -> Iterable[tuple[int, Mapping[str, Any]]]:
        """Return the trials that other programs have queued since the last call: Optuna's number and the parameters."""
        return ()

    def note(self, key: str, value: Any) -> None:
        """Store a note with the study. A note is any JSON-able value."""
        self._memory[key] = value

    def read_note(self, key: str) -> Any:
        """Return a note; None if it does not exist."""
        return self._memory.get(key)

    def dispose(self) -> None:
        """Close connections."""


class Record:
    """The record of a study.

    Trials are opened in the order of their numbers, which is the order of proposal. Each outcome is written under the
    name of its task (`fold_0`) as soon as it arrives, and the last outcome closes the trial. If no driver runs the
    study, a trial in the state `running` was interrupted, or is an open trial of ask-and-tell. A continued search
    trains the tasks of an interrupted trial that have no outcome.
    """

    # The notes of a study. Lists are in chronological order.
    stretches = Note[list[Stretch]](
        "stretches", lambda note: [Stretch(**each) for each in note or ()], lambda stretches: [*map(vars, stretches)]
    )
    added = Note[list[AddedPoint]](
        "added",
        lambda note: [AddedPoint(**each | {"point": as_values(each["point"])}) for each in note or ()],
        lambda added: [each.to_dict() for each in added],
    )
    actions = Note[list[RecordedAction]](
        "actions",
        lambda note: [RecordedAction.from_dict(each) for each in note or ()],
        lambda actions: [action.to_dict() for action in actions],
    )
    ended = Note[Ended | None]("ended", lambda note: Ended(**note) if note else None, vars)
    # The progress of callbacks; None until the study has a callback.
    called = Note[CallbackCalls | None]("called", lambda note: CallbackCalls(**note) if note else None, vars)
    # The open trials of ask-and-tell, by number.
    asked = Note[dict[int, Asked]](
        "asked",
        lambda note: {int(number): Asked(**each) for number, each in (note or {}).items()},
        lambda asked: {str(number): vars(each) for number, each in asked.items()},
    )

    def __init__(self, rows: Rows, goal: Goal, layout: TaskLayout) -> None:
        self._rows = rows
        self.goal = goal
        self.layout = layout
        self._has_begun = False
        # The known hosts of tasks, by trial number and task index; each host is written with the task's outcome.
        self.hosts: dict[tuple[int, int], Host] = {}
        self._trials: dict[int, Trial] = {}
        self.read_again()

    def read_again(self) -> bool:
        """Read the trials that `Rows.read` returns, and return whether there are any.

        `ReadOnlyRows` returns only new and changed trials, while `OptunaRows` returns all trials at each call.
        """
        has_changed = False
        for row in self._rows.read():
            # Store each trial before reading the next, because later trials may continue it.
            self._trials[row[0]] = self._trial(*row)
            has_changed = True
        return has_changed

    def trials(self) -> list[Trial]:
        """Return all trials in the order of their numbers, including running and interrupted ones."""
        return [self._trials[number] for number in sorted(self._trials)]

    def trial(self, number: int) -> Trial:
        """Return the trial with this number."""
        return self._trials[number]

    def history(self) -> History:
        """Return the trials that have ended, in the order of their numbers."""
        return History(trial for trial in self.trials() if trial.state != "running")

    def open_trial(
        self,
        round_number: int,
        proposal: Proposal,
        learned: Sequence[int] = (),
        cost_of: Callable[[Trial], float] | None = None,
    ) -> Trial:
        """Open a trial of a proposed point under the next free number, and return the trial.

        Args:
            round_number: the number of the round, from 0. The strategy proposes the points of a round together.
            proposal: the proposed point, with its amount of training.
            learned: the numbers of the trials whose results the strategy got after the previous trial was opened.
            cost_of: returns the cost of one unit of the trial's training; None = the cost is 1.
        """
        number = len(self._trials)
        amounts = {name: getattr(proposal, name) for name in AMOUNTS if proposal.amount is not None}
        origin = amounts if proposal.retry_of is None else {**amounts, _RETRY_OF: proposal.retry_of}
        trial = self.goal.trial(number, round_number, proposal.point, **origin, learned=tuple(learned))
        attributes: dict[str, Any] = {ROUND: round_number, **origin}
        if cost_of is not None:
            trial = replace(trial, cost=cost_of(trial))
            attributes[_COST] = trial.cost
        if learned:
            attributes[_LEARNED] = list(learned)
        self._rows.open(number, proposal.point, attributes)
        self._trials[number] = trial
        return trial

    def add_outcome(self, number: int, index: int, outcome: Outcome) -> Trial:
        """Write the outcome of a task and return the updated trial.

        The last outcome ends the trial. A second outcome of the same task, or an outcome of an ended trial, changes
        nothing.
        """
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
        """End a trial with the outcomes that it has, and return the trial."""
        trial = self._trials[number]
        trial = self._finished(trial, trial.outcomes, is_stopped=True)
        self._rows.close(number, trial.state, self._scores(trial), {}, {})
        self._trials[number] = trial
        return trial

    def earlier(self, trial: Trial, index: int) -> list[Mapping[str, Any]]:
        """Return the learning curves of all trainings that a task continues, joined in their order."""
        points: list[Mapping[str, Any]] = []
        while trial.continues is not None:
            trial = self._trials[trial.continues]
            points[:0] = trial.outcomes[index].curve if index in trial.outcomes else ()
        return points

    def _finished(self, trial: Trial, outcomes: Mapping[int, Outcome], is_stopped: bool = False) -> Trial:
        return finished(trial, outcomes, self.goal, is_stopped, partial(self.earlier, trial))

    def note(self, key: str, value: Any) -> None:
        """Store a note with the study. A note is any JSON-able value, such as the outcome of the final training."""
        self._rows.note(key, value)

    def read_note(self, key: str) -> Any:
        """Return a note; None if it does not exist."""
        return self._rows.read_note(key)

    def write_added(self, added: Iterable[AddedPoint]) -> None:
        """Write added points; call this before the points take effect."""
        self.added = [*self.added, *added]

    def queued(self) -> list[tuple[int, Mapping[str, Any]]]:
        """Return the trials that other programs have queued since the last call: Optuna's number and the parameters."""
        return list(self._rows.queued())

    def begin_stretch(self, workers: int) -> None:
        """Write that a period without interruption begins now, with this many workers.

        Only the first call on this object writes.
        """
        if not self._has_begun:
            self.stretches = [*self.stretches, Stretch(time.time(), workers)]
        self._has_begun = True

    def copy(self) -> "Record":
        """Return a copy in memory, with all trials, added points and user actions, for simulating the search."""
        copied = memory_record(self.goal, self.layout, self.trials())
        copied.added, copied.actions = self.added, self.actions
        return copied

    def judged_by(self, goal: Goal) -> "Record":
        """Return the record with `goal` in place of its own goal.

        Compute the excess of each complete trial again, from the limits of `goal`. Both records have the same rows and
        notes. If the goal is the same, return this record.
        """
        if goal == self.goal:
            return self
        judged = memory_record(goal, self.layout, (judged_by(goal, trial) for trial in self.trials()))
        judged._rows, judged.hosts = self._rows, self.hosts
        return judged

    def close(self) -> None:
        """Close the connections."""
        self._rows.dispose()

    def _scores(self, trial: Trial) -> Sequence[float]:
        """Return the scores to store. A stopped trial has scores to store only if the goal has a single metric."""
        if trial.state == "complete":
            return [*self.goal.scores(trial.losses).values()]
        return () if trial.score is None or len(self.goal.metrics) > 1 else [trial.score]

    def _trial(self, number: int, point: Point, state: State, attributes: Mapping[str, Any]) -> Trial:
        names = {self.layout.name(index): index for index in range(self.layout.size)}
        outcomes = {names[name]: Outcome(**attributes[name]) for name in names if name in attributes}
        for name, index in names.items():
            if (host := attributes.get(f"{name}{_HOST}")) is not None:
                self.hosts[number, index] = Host(**host)
        others = {name: attributes[name] for name in (*AMOUNTS, _COST, _RETRY_OF) if name in attributes}
        learned = tuple(attributes.get(_LEARNED, ()))
        trial = self.goal.trial(number, attributes[ROUND], point, outcomes=outcomes, learned=learned, **others)
        has_failed = any(outcome.error for outcome in outcomes.values())
        is_cut = (state == "failed" and has_failed) or (state == "stopped" and outcomes)
        if len(outcomes) < self.layout.size and not is_cut:
            # The trial is still running: ignore the stored state, which another program may have set with `study.tell`.
            return trial
        return self._finished(trial, outcomes, is_stopped=state == "stopped")


def memory_record(goal: Goal, layout: TaskLayout, trials: Iterable[Trial] = ()) -> Record:
    """Return a record in memory with these trials, for example for a simulation or a published study."""
    record = Record(Rows(), goal, layout)
    record._trials = {trial.number: trial for trial in trials}
    return record
