"""The scheduler of a search: it opens trials and begins their tasks, by the clock or as results arrive."""

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
    """Opens trials, begins their tasks, and handles their reports, in the order of the clock.

    When a lane is free, a waiting task begins in it. The tasks of the trial with the lowest number begin first. If no
    task waits, the proposer opens a new trial, based on the events on the clock so far.

    The trials in the record are scheduled again first, so a continued search gives the same trials as a search without
    interruption. If the search does not wait for the clock (see `Rules.waits`), events are handled in the order in
    which the reports of workers arrive, and at most `slots` tasks run at once.

    Args:
        rules: what determines the search.
        record: the events so far; the scheduler writes each new event to it.
        num_trials: the budget, as a number of trials or of configurations; see `Rules.counts`.
        slots: the number of tasks that workers can run at once.
        observers: the observers to notify of each event after it is written to the record.
        when_ended: is called with each trial that ends on the clock, in the order of the ends. This includes recorded
            trials, which end again on the new clock.

    Attributes:
        is_out_of_time: whether no further trial may be opened; set by the caller.
        events: the events on the clock so far.
        begun: the time on the clock at which each task began; the clock measures time as cost.
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
        # By the trial's number: the trials, the tasks not yet taken, and the number of tasks that have not ended.
        self._trials: dict[int, Trial] = {}
        self._tasks: dict[int, dict[int, Task]] = {}
        self._missing: dict[int, int] = {}
        self._queue: list[Key] = []
        # The limits of the median rule, by the trial's number, then by the task's index; see `StopRule`.
        self._limits: dict[int, dict[int, Sequence[tuple[float, float]]]] = {}
        # A race judges each trial once, when its first tasks have ended. The later tasks wait for this decision. By
        # number, `_unjudged` holds the rivals of trials not judged yet; by amount, `_rivals` holds the current rivals.
        self._num_later = 0 if rules.race is None else record.layout.size - rules.race.tasks
        self._unjudged: dict[int, Rivals] = {}
        self._rivals: dict[int | None, Rivals] = {}
        self._medians = None if rules.stop_rule is None else Medians(rules.stop_rule)
        self._num_judged_by = 0
        self.events: list[Event] = []
        self.begun: dict[Key, float] = {}
        self.is_out_of_time = False

    def advance(self) -> Iterator[Key]:
        """Advance the clock, and yield the keys of the tasks that begin, in the order in which they begin.

        Stop when the clock does not know its next event yet (see `Clock.advance`). Do not yield recorded tasks that
        already have an outcome.
        """
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
        """The reason for the end of the search: `space`, unless another reason applies.

        After the end, `space` means that the strategy proposes no more points. During the search, `space` means that
        the search may go on.
        """
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
        """Whether all trials of the record have been opened again."""
        return self._proposer.num_opened >= self._num_recorded

    @property
    def num_opened(self) -> int:
        """The number of trials opened so far, including those in the record."""
        return max(self._num_recorded, self._proposer.num_opened)

    def add_point(self, add: Add, time: float | None = None, by: str | None = None) -> None:
        """Add a user's point; see `Proposer.add_point`."""
        self._proposer.add_point(AddedPoint(add.point, self.num_opened, time, by, add.retry_of))

    def task(self, key: Key) -> Task:
        """Return the task of a key that `advance` yielded, with the data that the worker needs from other trials.

        Call this method once per task.
        """
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
        """Handle a worker's report: update the clock, write an outcome to the record, then notify the observers."""
        key, outcome = Key(report.task.trial, report.task.index), report.settled()
        trial = self._trials[key.trial]
        self.update_clock(report)
        if outcome is not None:
            # A second attempt may report fewer units than the first one, but the first has already advanced the clock.
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
        """Add a report to the clock."""
        if report.units is not None:
            self._clock.report(Key(report.task.trial, report.task.index), report.units, report.goes_on)

    def _next_key(self) -> Key | None:
        """Return the key of the next task, and open a new trial if necessary; None = nothing can begin now."""
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
        # Of a recorded trial that has ended, schedule only the tasks that have an outcome.
        begun = [index for index in range(first) if trial.state == "running" or index in trial.outcomes]
        self._missing[number] -= first - len(begun)
        for index in begun:
            heapq.heappush(self._queue, Key(number, index))
        if trial.state != "running":
            return
        # A recorded trial keeps its recorded cost, even if the user allowed a change of the configuration.
        if number >= self._num_recorded and (cost := self._rules.cost_of(trial)) != trial.cost:
            raise StudyError(
                f"trial {number}: describe_cost now returns {cost:g}, but the record holds {trial.cost:g}; the cost of "
                f"a configuration must stay the same: fix the objective, and start a new study"
            )
        for observer in self._observers:
            observer.trial_opened(trial)

    def _learn(self, trials: Sequence[Trial]) -> None:
        """Update the race and the median rule with trials whose results have become known."""
        race = self._rules.race
        self._num_judged_by += len(trials)
        if race is not None:
            for known in trials:
                self._rivals[known.amount] = race.add_rival(self._rivals.get(known.amount, {}), known)
        if self._medians is not None:
            self._medians.learn(trials)

    def _end(self, key: Key) -> None:
        """Handle the end of a task on the clock; after the last task of a trial, also handle the end of the trial."""
        number, race = key.trial, self._rules.race
        self._missing[number] -= 1
        # If a rule stopped this task, drop the trial's other tasks that have not begun. Without the clock, it is chance
        # which of them have begun, so all are trained.
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
        """After a rule has stopped one task of a trial, begin no further tasks of the trial; running tasks continue."""
        others = [key for key in self._queue if key.trial != number]
        self._missing[number] -= len(self._queue) - len(others)
        self._queue = others
        heapq.heapify(self._queue)
        if self._unjudged.pop(number, None) is not None:
            self._missing[number] -= self._num_later

    def _judge(self, race: Race, number: int) -> None:
        """Stop a trial if `Race.must_stop` says so; otherwise, queue the trial's remaining tasks.

        If the record already has a decision for the trial, repeat this decision.
        """
        trial, rivals = self._trials[number], self._unjudged.pop(number)
        if trial.state == "running" and race.must_stop(trial, rivals):
            trial = self._stop(number)
        if len(trial.outcomes) == race.tasks and trial.state != "running":
            self._missing[number] = 0
            return
        for index in range(race.tasks, self._record.layout.size):
            heapq.heappush(self._queue, Key(number, index))

    def _stop(self, number: int) -> Trial:
        """End a trial with the outcomes that it has, write this to the record, and notify the observers."""
        self._trials[number] = trial = self._record.stop(number)
        for observer in self._observers:
            observer.trial_finished(trial)
        return trial


def clock_times(rules: Rules, record: Record) -> Mapping[Key, tuple[float, float]]:
    """Return the start time and the end time of each ended task on the study's clock; the clock measures time as cost.

    The result is empty if the search does not wait for the clock.
    """
    if not rules.waits:
        return {}
    # With the recorded costs, the objective is not called. With a budget of the recorded trials, the strategy is called
    # only if a retry waits.
    recorded = replace(rules, cost_of=lambda trial: trial.cost, counts="trials")
    scheduler = Scheduler(recorded, record.copy(), sum(is_counted(trial, "trials") for trial in record.trials()))
    for _ in scheduler.advance():
        pass
    return {event.key: (scheduler.begun[event.key], event.time) for event in scheduler.events if event.is_end}
