"""The course of a search: which trials are opened and which tasks begin, decided on the clock alone."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hpo.engine.observers import Observer
from hpo.engine.schedule.clock import Arrival, Clock, Event, Key
from hpo.engine.schedule.proposer import Proposer
from hpo.engine.schedule.rules import Rules, is_counted
from hpo.engine.schedule.stopping import Medians, Race, Rivals
from hpo.errors import StudyError
from hpo.trials.record.record import EndedBy, Record
from hpo.trials.record.user_actions import Add, AddedPoint
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.training.tasks import Task


class Scheduler:
    """Opens trials, begins their tasks, and takes their reports, in the order of the clock.

    A lane that becomes free takes the next task of an open trial, in the order (trial, task); where there is none, the
    strategy is asked, with everything that has happened on the clock so far. What is in the record takes its course
    again first; so a search that is continued is the same as one that was never interrupted. Where nothing waits for
    the clock, all `slots` are kept busy. Observers are notified after everything is written to the record.
    `when_ended` is called with each trial that ends on the clock, in its order, those in the record included.
    `is_out_of_time`, whether no further trial may be opened, is set from outside.
    """

    def __init__(
        self,
        rules: Rules,
        record: Record,
        num_trials: int,
        slots: int = 1,
        observers: Sequence[Observer] = (),
        when_ended: Callable[[Trial], None] | None = None,
    ) -> None:
        self._rules = rules
        self._when_ended = when_ended
        self._record = record
        self._num_recorded = len(record.trials())
        self._observers = observers
        self._lanes = rules.lanes if rules.waits else slots
        self._clock = Clock() if rules.waits else Arrival()
        self._proposer = Proposer(rules, record, num_trials)
        # By the trial's number.
        self._trials: dict[int, Trial] = {}
        self._tasks: dict[int, dict[int, Task]] = {}
        self._missing: dict[int, int] = {}
        self._queue: list[Key] = []
        # By the trial's number, then the task's; see `StopRule`.
        self._limits: dict[int, dict[int, Sequence[tuple[float, float]]]] = {}
        # Under a race each trial is judged once, when its first tasks have ended; its later tasks wait for that.
        self._num_later = 0 if rules.race is None else record.layout.size - rules.race.tasks
        self._unjudged: dict[int, Rivals] = {}
        self._rivals: dict[int | None, Rivals] = {}
        self._medians = None if rules.stop_rule is None else Medians(rules.stop_rule)
        self._num_judged_by = 0
        self.events: list[Event] = []
        self.begun: dict[Key, float] = {}
        self.is_out_of_time = False

    def advance(self) -> Iterator[Key]:
        """Move the clock as far as it is certain, and yield the tasks to be run, in the order of their begin on it."""
        while True:
            while self._clock.num_running < self._lanes and (key := self._next_key()) is not None:
                trial = self._trials[key.trial]
                self._clock.begin(key, trial.cost)
                self.begun[key] = self._clock.now
                if key.task in trial.outcomes:
                    self._clock.end(key, trial.outcomes[key.task].units)
                else:
                    yield key
            event = self._clock.advance()
            if event is None:
                return
            self.events.append(event)
            if event.is_end:
                self._end(event.key)

    @property
    def ended_by(self) -> EndedBy:
        """The first budget that was reached; `space` where the strategy has nothing more to propose."""
        if self._proposer.is_spent:
            return "trials"
        if self._proposer.has_reached:
            return "target"
        if not self._proposer.has_gained:
            return "stop_without_gain"
        is_cut = self.is_out_of_time and self._proposer.num_opened >= self._num_recorded
        return "minutes" if is_cut else "space"

    @property
    def has_caught_up(self) -> bool:
        """Whether all trials of the record are open again, so that nothing was decided later on the clock."""
        return self._proposer.num_opened >= self._num_recorded

    @property
    def num_opened(self) -> int:
        """How many trials were opened, those in the record included."""
        return max(self._num_recorded, self._proposer.num_opened)

    def add_point(self, add: Add, time: float | None = None, by: str | None = None) -> None:
        """Open a point that a user added before the strategy's next new one."""
        self._proposer.add_point(AddedPoint(add.point, self.num_opened, time, by, add.retry_of))

    def task(self, key: Key) -> Task:
        """Return a task that is to be run."""
        trial = self._trials[key.trial]
        if key.trial not in self._tasks:
            self._tasks[key.trial] = {task.index: task for task in self._rules.tasks_of(trial)}
        task, more = self._tasks[key.trial].pop(key.task), dict[str, Any]()
        if self._medians is not None:
            more = {"limits": self._limits[key.trial].pop(key.task, ()), "limits_after": self._medians.after}
        if trial.continues is not None:
            more["earlier"] = self._record.earlier(trial, key.task)
        return replace(task, payload=replace(task.payload, **more)) if more else task

    def take(self, report: TaskReport) -> None:
        """Write an outcome, tell the clock, then notify the observers."""
        key, outcome = Key(report.task.trial, report.task.index), report.settled()
        trial = self._trials[key.trial]
        self.update_clock(report)
        if outcome is not None:
            # A second attempt may report less than the first one, whose reports have moved the clock already.
            units = max(outcome.units, self._clock.latest(key) + report.is_lost)
            outcome = outcome if units == outcome.units else replace(outcome, units=units)
            trial = self._record.add_outcome(trial.number, key.task, outcome)
            self._trials[trial.number] = trial
            self._clock.end(key, outcome.units)
        for observer in self._observers:
            observer.reported(trial, report)
            if outcome is not None and trial.state != "running":
                observer.trial_finished(trial)

    def update_clock(self, report: TaskReport) -> None:
        """Let the clock know how far a task is."""
        if report.units is not None:
            self._clock.report(Key(report.task.trial, report.task.index), report.units, report.goes_on)

    def _next_key(self) -> Key | None:
        """Return the next task; open a trial where no open one has any left."""
        while not self._queue:
            if self.ended_by != "space":
                return None
            trial = self._proposer.open_next()
            if trial is None:
                return None
            self._open(trial)
        return heapq.heappop(self._queue)

    def _open(self, trial: Trial) -> None:
        number, num_tasks, first = trial.number, self._record.layout.size, self._record.layout.size - self._num_later
        self._trials[number], self._missing[number] = trial, num_tasks
        if self._rules.judges:
            self._learn(self._proposer.known[self._num_judged_by :])
        if self._rules.race is not None:
            self._unjudged[number] = self._rivals.get(trial.amount, {})
        if self._medians is not None and trial.state == "running":
            self._limits[number] = {index: self._medians.limits(trial, index) for index in range(num_tasks)}
        # A trial that is over has no other tasks than those with an outcome.
        begun = [index for index in range(first) if trial.state == "running" or index in trial.outcomes]
        self._missing[number] -= first - len(begun)
        for index in begun:
            heapq.heappush(self._queue, Key(number, index))
        if trial.state != "running":
            return
        # What the record holds stands, also where a change of the configuration was allowed.
        if number >= self._num_recorded and (cost := self._rules.cost_of(trial)) != trial.cost:
            raise StudyError(
                f"trial {number}: describe_cost now returns {cost:g}, the record holds {trial.cost:g}; the cost of a "
                f"configuration must stay the same: correct the objective, and start a new study"
            )
        for observer in self._observers:
            observer.trial_opened(trial)

    def _learn(self, trials: Sequence[Trial]) -> None:
        """Let the race and the rule learn what became known."""
        race = self._rules.race
        self._num_judged_by += len(trials)
        if race is not None:
            for known in trials:
                self._rivals[known.amount] = race.joined(self._rivals.get(known.amount, {}), known)
        if self._medians is not None:
            self._medians.learn(trials)

    def _end(self, key: Key) -> None:
        """Note on the clock that a task has ended, and perhaps its trial."""
        number, race = key.trial, self._rules.race
        self._missing[number] -= 1
        # In free order, which of them have begun is chance: there they are all trained.
        if self._rules.waits and self._trials[number].outcomes[key.task].stopped:
            self._drop_rest(number)
        elif race is not None and number in self._unjudged and self._missing[number] == self._num_later:
            self._judge(race, number)
        if not self._missing[number]:
            if self._trials[number].state == "running":
                self._stop(number)
            self._proposer.end(self._trials[number])
            if self._when_ended is not None:
                self._when_ended(self._trials[number])
            self._tasks.pop(number, None)
            self._limits.pop(number, None)

    def _drop_rest(self, number: int) -> None:
        """Begin no further tasks of a trial, one of which a rule has stopped; those that run go on to their own end."""
        kept = [key for key in self._queue if key.trial != number]
        self._missing[number] -= len(self._queue) - len(kept)
        self._queue = kept
        heapq.heapify(self._queue)
        if self._unjudged.pop(number, None) is not None:
            self._missing[number] -= self._num_later

    def _judge(self, race: Race, number: int) -> None:
        """Give a trial its other tasks, or stop it; what the record says of it stands."""
        trial, rivals = self._trials[number], self._unjudged.pop(number)
        if trial.state == "running" and race.is_behind(trial, rivals):
            trial = self._stop(number)
        if len(trial.outcomes) == race.tasks and trial.state != "running":
            self._missing[number] = 0
            return
        for index in range(race.tasks, self._record.layout.size):
            heapq.heappush(self._queue, Key(number, index))

    def _stop(self, number: int) -> Trial:
        """Write that a trial gets no further tasks."""
        self._trials[number] = trial = self._record.stop(number)
        for observer in self._observers:
            observer.trial_finished(trial)
        return trial


def clock_times(rules: Rules, record: Record) -> Mapping[Key, tuple[float, float]]:
    """Return begin and end of every task that has ended on the clock, in units of cost; empty where none waits."""
    if not rules.waits:
        return {}
    # Nothing is asked, neither the strategy nor the objective.
    recorded = replace(rules, cost_of=lambda trial: trial.cost, counts="trials")
    course = Scheduler(recorded, record.copy(), sum(is_counted(trial, "trials") for trial in record.trials()))
    for _ in course.advance():
        pass
    return {event.key: (course.begun[event.key], event.time) for event in course.events if event.is_end}
