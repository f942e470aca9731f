"""The loop: lets workers train the tasks that begin on the clock, and the clock know what they report."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from hpo.engine.observers import FirstFailures, Observer
from hpo.engine.schedule.clock import Key
from hpo.engine.schedule.rules import Rules
from hpo.engine.schedule.scheduler import Scheduler
from hpo.trials.goal import Goal
from hpo.trials.history import History
from hpo.trials.places import reached
from hpo.trials.record.record import CallbackCalls, Ended, EndedBy, Record
from hpo.trials.record.user_actions import Add, End, Raise, RecordedAction, Stop, UserAction
from hpo.trials.trial import Outcome, Trial, loss_of, seconds_trained
from hpo.workers.dispatch.dispatcher import Dispatcher, TaskReport
from hpo.workers.training.tasks import Task

REVISION = 2
"""Rises where the same study would have other trials, or another winner, with the same strategy and objective.

It covers the clock, the space and how a point becomes a configuration, splits, seeds, the order of tasks, what a budget
counts, costs, limits, rules that stop trainings, what a report counts for, and how the winner is chosen.
"""

# Seconds between two notes of the time while a search runs.
_SECONDS_BETWEEN_NOTES = 10.0

UserActions = Callable[[bool], Iterable[UserAction]]
Callback = Callable[[Trial, Callable[[UserAction], None]], None]


def search(
    rules: Rules,
    record: Record,
    dispatcher: Dispatcher,
    num_trials: int,
    observers: Sequence[Observer] = (),
    minutes: float | None = None,
    stop_after_failures: int | None = None,
    user_actions: UserActions = lambda _: (),
    seconds_between_polls: float = 1.0,
    callback: Callback | None = None,
) -> History:
    """Run a search until a budget is reached, and return all its trials in the order of their numbers.

    Workers take tasks in the order in which the clock began them. What they report is known to the strategy when the
    clock has reached it, so that the trials do not depend on the workers. The record notes which budget was reached.

    Args:
        rules: what determines the search.
        record: holds what has happened so far; everything is written to it.
        dispatcher, observers: run the tasks, are notified of events.
        num_trials: the budget, of what `Rules.counts` says.
        minutes: no trial is begun after so many, earlier runs included; it cuts the trials, and changes none.
        stop_after_failures: where the first so many trials of this run all fail with the same error, or the first
            training of the study does not report a metric, and budget is left, it stops; None = never.
        hand: yields what a user requested since the last call: points are untried and of the space, trials to be
            stopped are running, budgets are larger. Each has taken effect when the next is asked for. It is told
            whether trials can be stopped: not while a search that is continued is behind where it was before.
        seconds_between_polls: between two calls of `user_actions`.
        callback: is called with each trial that ends, once, in the order of the clock, and with what does at once what
            it asks (`Add`, `End`). Of a study that had none before, not with trials that had ended then.

    Raises:
        StudyError: the strategy no longer proposes what the record holds, or its first trials all failed alike.
    """
    if _stays_ended(rules, record):
        return record.history()
    budget = num_trials, minutes
    polling = user_actions, seconds_between_polls
    return _Search(rules, record, dispatcher, observers, budget, stop_after_failures, polling, callback).run()


@dataclass(frozen=True)
class _Flight:
    """A task that a worker has: since when, on two clocks, and what it has reported of its learning curve."""

    task: Task
    started: float
    began: float
    reports: list[TaskReport] = field(default_factory=list)

    def keep(self, report: TaskReport) -> int:
        """Keep a point of its curve, once, also where a second attempt repeats it; return how many there are."""
        latest = self.reports[-1].units if self.reports else 0.0
        if report.point is not None and report.units is not None and report.units > (latest or 0.0):
            self.reports.append(report)
        return len(self.reports)

    def stopped_by_user(self, goal: Goal, now: float) -> Outcome:
        """Return the outcome of one that a user ends: as of one that a rule stops at its last point."""
        curve = [report.point for report in self.reports if report.point is not None]
        scores = [point[goal.metric] for point in curve if goal.metric in point]
        best = min(scores, key=lambda score: loss_of(score, goal.direction), default=None)
        stopped = f"by the user at point {len(curve)}" if curve else "by the user before its first report"
        metrics = {} if best is None else {goal.metric: best}
        far = reached(self.task.payload.earlier, curve)
        return Outcome(metrics, curve, now - self.began, units=0.0, started=self.started, stopped=stopped, reached=far)


class _Search:
    """A search while it runs."""

    def __init__(
        self,
        rules: Rules,
        record: Record,
        dispatcher: Dispatcher,
        observers: Sequence[Observer],
        budget: tuple[int, float | None],
        stop_after_failures: int | None,
        polling: tuple[UserActions, float],
        callback: Callback | None,
    ) -> None:
        self._rules, self._record, self._dispatcher = rules, record, dispatcher
        self._num_trials, self._minutes = budget
        self._user_actions, self._seconds_between_polls = polling
        self._callback = callback
        if callback is not None and record.called is None:
            record.called = CallbackCalls([trial.number for trial in record.history()])
        self._called = record.called or CallbackCalls(())
        is_scored = any(outcome.metrics for trial in record.trials() for outcome in trial.outcomes.values())
        self._first = FirstFailures(stop_after_failures, is_scored)
        self._observers = observers
        self._began, self._before = dispatcher.now, seconds_spent(record)
        self._noted, self._next_poll = self._before, 0.0
        self._waiting: deque[Key] = deque()
        self._in_flight: dict[Key, _Flight] = {}
        # Of trials that a user has stopped, by their numbers; see `RecordedAction.points`.
        self._stopped = {act.trial: act.points for act in record.actions if act.trial is not None}
        self._is_stopping = False
        self._begin_scheduler()

    def run(self) -> History:
        record, dispatcher = self._record, self._dispatcher
        if record.ended:
            # Not ended any more, if there is more to do.
            record.ended = Ended(None, self._before, self._rules.stop_without_gain)
        while True:
            if self._seconds >= self._noted + _SECONDS_BETWEEN_NOTES:
                self._noted = self._seconds
                record.ended = Ended(None, self._noted, self._rules.stop_without_gain)
            if self._seconds >= self._next_poll:
                self._look()
            self._plan()
            if self._waiting or self._in_flight:
                self._first.refuse_more()
            self._submit()
            if not self._in_flight:
                if self._look():
                    continue
                record.ended = Ended(self._ended_by(), self._seconds, self._rules.stop_without_gain)
                return record.history()
            for report in dispatcher.wait():
                self._take(report)

    def _ended_by(self) -> EndedBy:
        """Return what ended the search; a search that is complete when the user stops it was not ended by that."""
        if self._is_stopping:
            if not is_over(self._rules, self._record, self._num_trials, self._minutes):
                return "user"
            self._scheduler.is_out_of_time = self._is_late
        return "callback" if self._is_ended else self._scheduler.ended_by

    @property
    def _is_ended(self) -> bool:
        return is_ended_by_callback(self._record, self._num_trials)

    @property
    def _is_late(self) -> bool:
        return self._minutes is not None and self._seconds >= 60 * self._minutes

    @property
    def _seconds(self) -> float:
        """How long the search has taken, interruptions left out."""
        return self._before + self._dispatcher.now - self._began

    def _begin_scheduler(self) -> None:
        """Begin the course, or begin it again under another budget: from the record, as a search that is continued."""
        observers = [*self._observers, self._first]
        self._num_ended = 0
        when_ended = None if self._callback is None else self._call
        self._scheduler = Scheduler(
            self._rules, self._record, self._num_trials, self._dispatcher.slots, observers, when_ended
        )
        self._waiting.clear()

    def _call(self, trial: Trial) -> None:
        """Call the callback with a trial that has ended on the clock, and note that."""
        self._num_ended += 1
        if self._num_ended <= self._called.ends:
            return
        assert self._callback is not None
        if trial.number not in self._called.before:
            self._callback(trial, self._follow)
        self._called = self._record.called = replace(self._called, ends=self._num_ended)

    def _plan(self) -> None:
        """Let the clock begin what it can, and queue it for the workers."""
        self._scheduler.is_out_of_time = self._is_stopping or self._is_late or self._is_ended
        for key in self._scheduler.advance():
            if key in self._in_flight:
                # After the course was begun again.
                for report in self._in_flight[key].reports:
                    self._scheduler.update_clock(report)
            elif self._points_left(key) == 0:
                self._end_by_hand(key)
            else:
                self._waiting.append(key)

    def _submit(self) -> None:
        while self._waiting and len(self._in_flight) < self._dispatcher.slots:
            key = self._waiting.popleft()
            if self._is_stopping and not self._has_begun(key.trial):
                continue
            self._record.begin_stretch(self._dispatcher.slots)
            task = self._scheduler.task(key)
            self._in_flight[key] = _Flight(task, time.time(), self._dispatcher.now)
            self._dispatcher.submit(task)
            for observer in self._observers:
                observer.task_begun(task)

    def _has_begun(self, number: int) -> bool:
        return any(key.trial == number for key in self._in_flight) or bool(self._record.trial(number).outcomes)

    def _take(self, report: TaskReport) -> None:
        key = Key(report.task.trial, report.task.index)
        # A late or repeated report of a task with an outcome changes nothing.
        if key not in self._in_flight:
            return
        self._scheduler.take(report)
        if report.outcome is not None:
            del self._in_flight[key]
        elif self._in_flight[key].keep(report) == self._points_left(key):
            self._end_by_hand(key)

    def _points_left(self, key: Key) -> int | None:
        """Return after how many points a user has ended the task; None = it has not."""
        return self._stopped[key.trial].get(key.task, 0) if key.trial in self._stopped else None

    def _look(self) -> bool:
        """Do what a user has requested, and return whether there was anything."""
        self._next_poll = self._seconds + self._seconds_between_polls
        has_asked = False
        for instruction in self._user_actions(self._scheduler.has_caught_up):
            has_asked = True
            self._follow(instruction)
        return has_asked

    def _follow(self, instruction: UserAction) -> None:
        """Do what was asked, and tell the observers."""
        self._apply(instruction)
        for observer in self._observers:
            observer.user_acted(instruction)

    def _apply(self, instruction: UserAction) -> None:
        """Write an act to the record, and let it take effect."""
        ask, now = instruction.ask, time.time()
        if isinstance(ask, Add):
            self._scheduler.add_point(ask, now, instruction.by)
            return
        if isinstance(ask, Stop) and ask.trial in self._stopped:
            # On the clock it may end later, and until then it is open.
            return
        act = RecordedAction("stop_search", self._scheduler.num_opened, now, instruction.by)
        if isinstance(ask, End):
            self._write(replace(act, do="end_search", trials=self._num_trials))
            self._scheduler.is_out_of_time = True
        elif isinstance(ask, Raise):
            self._write(replace(act, do="raise_budget", **vars(ask)))
            self._num_trials = ask.trials or self._num_trials
            self._minutes = ask.minutes or self._minutes
            self._begin_scheduler()
            # At once, so that what is asked next finds the running tasks on the clock.
            self._plan()
        elif ask.trial is None:
            self._write(act)
            self._is_stopping = True
        else:
            begun = [key for key in (*self._in_flight, *self._waiting) if key.trial == ask.trial]
            ended: dict[int, int | None] = dict.fromkeys(self._record.trial(ask.trial).outcomes)
            points = ended | {key.task: self._num_points(key) for key in begun}
            self._write(replace(act, do="stop_trial", trial=ask.trial, points=points))
            self._stopped[ask.trial] = points
            for key in begun:
                self._end_by_hand(key)

    def _write(self, act: RecordedAction) -> None:
        self._record.actions = [*self._record.actions, act]

    def _end_by_hand(self, key: Key) -> None:
        """End a task where it is: its worker, if it has one, and with the points so far its outcome."""
        flight = self._in_flight.pop(key, None)
        if flight is not None:
            self._dispatcher.drop(flight.task)
        elif key in self._waiting:
            self._waiting.remove(key)
        flight = flight or _Flight(self._scheduler.task(key), time.time(), self._dispatcher.now)
        outcome = flight.stopped_by_user(self._record.goal, self._dispatcher.now)
        # On the clock it ends a unit later than it has reported: what lies before that may be over already.
        self._scheduler.take(TaskReport(flight.task, outcome=outcome, is_lost=True))

    def _num_points(self, key: Key) -> int:
        return len(self._in_flight[key].reports) if key in self._in_flight else 0


def is_over(rules: Rules, record: Record, num_trials: int, minutes: float | None = None) -> bool:
    """Return whether nothing is left to run: every trial is finished, and a budget or the space is exhausted."""
    if _stays_ended(rules, record):
        return True
    # What a trial would cost makes no difference here, and an objective may need its data to say it.
    course = Scheduler(replace(rules, cost_of=lambda trial: trial.cost), record.copy(), num_trials)
    is_late = minutes is not None and seconds_spent(record) >= 60 * minutes
    course.is_out_of_time = is_late or is_ended_by_callback(record, num_trials)
    return next(course.advance(), None) is None


def is_ended_by_callback(record: Record, num_trials: int) -> bool:
    """Return whether a callback has ended the search; with a larger budget, or a point added since, it goes on."""
    ends = [act for act in record.actions if act.do == "end_search"]
    return bool(ends) and len(record.trials()) <= ends[-1].after and num_trials <= (ends[-1].trials or 0)


def seconds_spent(record: Record) -> float:
    """Return how long the search has taken so far, interruptions left out."""
    # Without a note it was interrupted in its first seconds, or made when only a search limited by time noted it.
    return float(record.ended.seconds) if record.ended else seconds_trained(record.trials())


def _stays_ended(rules: Rules, record: Record) -> bool:
    """Return whether a search of free order has ended without gain: what was known then is not known again."""
    ended, limit = record.ended, rules.stop_without_gain
    if rules.order != "free" or limit is None or not ended or ended.by != "stop_without_gain":
        return False
    return limit <= (ended.limit or 0) and all(trial.state != "running" for trial in record.trials())
