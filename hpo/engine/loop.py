"""The main loop of a search: it passes the scheduler's tasks to workers, and the workers' reports to the scheduler."""

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

REVISION = 3
"""The version of the search itself.

Increase it when a code change gives other trials or another winner for the same study, strategy and objective. Such
changes can be in the clock, the space, the configuration of a point, splits, seeds, the order of tasks, budgets, costs,
limits, rules that stop trainings, the use of reports, or the choice of the winner.
"""

# While a search runs, it writes its duration to the record at this interval.
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
    """Run a search until it ends, and return its ended trials in the order of their numbers.

    Workers take tasks in the order in which the tasks begin on the clock. `Rules.order` has two values, which say when
    the strategy gets a result:

    - `clock`: when the clock reaches the result. So the trials do not depend on the workers.
    - `free`: when the result arrives. So the trials depend on the workers.

    The record says what ended the search.

    Args:
        rules: what determines the search.
        record: the events so far; the search writes each new event to it.
        dispatcher: runs the tasks.
        num_trials: the budget, in the unit of `Rules.counts`.
        observers: the observers to notify of each event.
        minutes: the time limit, which includes the time of earlier runs; None = no limit. No trial begins after the
            limit. With the order `clock`, the limit does not change the trials that begin before it.
        stop_after_failures: N = stop when the first N trials of this run have all failed with the same error. Also stop
            when a training does not report a metric and no earlier training of the study has succeeded. If no task
            waits or runs, the search ends without this error. None = never stop for failures.
        user_actions: yields the user actions since the last call. The function's argument says whether trials can be
            stopped; this is False while a continued search replays its record. The search does not check the actions:
            an added point must be untried and in the space, a stopped trial must be running, and a raised budget must
            be above the current budget. Each action takes effect before the next action is requested.
        seconds_between_polls: the time between two calls of `user_actions`.
        callback: is called once with each trial that ends, in the order of the clock. The second argument is a function
            that carries out an action (`Add`, `End`) at once. Trials that ended before the study had a callback are
            left out.

    Raises:
        StudyError: the strategy no longer proposes the trials of the record, or proposes an invalid point; or
            `stop_after_failures` stops the search.
        MachineError: the machine cannot run a task, for example because its disk is full.
    """
    if _stays_ended(rules, record):
        return record.history()
    budget = num_trials, minutes
    polling = user_actions, seconds_between_polls
    return _Search(rules, record, dispatcher, observers, budget, stop_after_failures, polling, callback).run()


@dataclass(frozen=True)
class _RunningTask:
    """A task that a worker is training, with the reports of its learning curve.

    Attributes:
        started: the task's start in seconds since the epoch.
        began: the task's start in the time of the dispatcher (`Dispatcher.now`).
    """

    task: Task
    started: float
    began: float
    reports: list[TaskReport] = field(default_factory=list)

    def add_report(self, report: TaskReport) -> int:
        """Add a report of the task, and return how many reports the task has.

        If an earlier attempt of the task made the same report, do not add the report again.
        """
        latest = self.reports[-1].units if self.reports else 0.0
        if report.point is not None and report.units is not None and report.units > (latest or 0.0):
            self.reports.append(report)
        return len(self.reports)

    def stopped_by_user(self, goal: Goal, now: float, worker: int) -> Outcome:
        """Return the outcome of a task that a user stops; `worker` is 0 if no worker has begun the task.

        The outcome is the same as if a rule had stopped the task at its last report.
        """
        curve = [report.point for report in self.reports if report.point is not None]
        scores = [point[goal.metric] for point in (*self.task.payload.earlier, *curve) if goal.metric in point]
        best = min(scores, key=lambda score: loss_of(score, goal.direction), default=None)
        stopped = f"by the user after report {len(curve)}" if curve else "by the user before the first report"
        metrics = {} if best is None else {goal.metric: best}
        far = reached(self.task.payload.earlier, curve)
        return Outcome(
            metrics,
            curve,
            now - self.began,
            units=0.0,
            started=self.started,
            worker=worker,
            stopped=stopped,
            reached=far,
        )


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
        self._last_note, self._next_poll = self._before, 0.0
        self._waiting: deque[Key] = deque()
        self._running: dict[Key, _RunningTask] = {}
        # The trials that a user has stopped, by number; see `RecordedAction.points`.
        self._stopped = {action.trial: action.points for action in record.actions if action.trial is not None}
        self._is_stopping = False
        self._begin_scheduler()

    def run(self) -> History:
        record, dispatcher = self._record, self._dispatcher
        if record.ended:
            # This run may begin more trials, so remove the note that the search has ended.
            record.ended = Ended(None, self._before, self._rules.stop_without_gain)
        while True:
            if self._seconds >= self._last_note + _SECONDS_BETWEEN_NOTES:
                self._last_note = self._seconds
                record.ended = Ended(None, self._last_note, self._rules.stop_without_gain)
            if self._seconds >= self._next_poll:
                self._poll_user()
            self._plan()
            if self._waiting or self._running:
                self._first.refuse_more()
            self._submit()
            if not self._running:
                if self._poll_user():
                    continue
                record.ended = Ended(self._ended_by(), self._seconds, self._rules.stop_without_gain)
                return record.history()
            for report in dispatcher.wait():
                self._handle(report)

    def _ended_by(self) -> EndedBy:
        """Return what ended the search; ignore a stop by the user if nothing was left to do."""
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
        """The running time of the search so far in seconds; the time between two runs does not count."""
        return self._before + self._dispatcher.now - self._began

    def _begin_scheduler(self) -> None:
        """Make a scheduler for the current budget; it first schedules the recorded trials again."""
        observers = [*self._observers, self._first]
        self._num_ended = 0
        when_ended = None if self._callback is None else self._call
        self._scheduler = Scheduler(
            self._rules, self._record, self._num_trials, self._dispatcher.slots, observers, when_ended
        )
        self._waiting.clear()

    def _call(self, trial: Trial) -> None:
        """Call the callback once with an ended trial; skip trials that ended before the study had a callback."""
        self._num_ended += 1
        if self._num_ended <= self._called.ends:
            return
        assert self._callback is not None
        if trial.number not in self._called.before:
            self._callback(trial, self._carry_out)
        self._called = self._record.called = replace(self._called, ends=self._num_ended)

    def _plan(self) -> None:
        """Advance the clock, and put each task that begins at the new time into the workers' queue."""
        self._scheduler.is_out_of_time = self._is_stopping or self._is_late or self._is_ended
        for key in self._scheduler.advance():
            if key in self._running:
                # The task is already running, so the scheduler is a new one, made when the budget was raised. Pass it
                # the reports so far.
                for report in self._running[key].reports:
                    self._scheduler.update_clock(report)
            elif self._points_left(key) == 0:
                self._stop_task(key)
            else:
                self._waiting.append(key)

    def _submit(self) -> None:
        while self._waiting and len(self._running) < self._dispatcher.slots:
            key = self._waiting.popleft()
            if self._is_stopping and not self._has_begun(key.trial):
                continue
            self._record.begin_stretch(self._dispatcher.slots)
            task = self._scheduler.task(key)
            self._running[key] = _RunningTask(task, time.time(), self._dispatcher.now)
            self._dispatcher.submit(task)
            for observer in self._observers:
                observer.task_begun(task)

    def _has_begun(self, number: int) -> bool:
        return any(key.trial == number for key in self._running) or bool(self._record.trial(number).outcomes)

    def _handle(self, report: TaskReport) -> None:
        key = Key(report.task.trial, report.task.index)
        # The task may have an outcome already: ignore late and repeated reports.
        if key not in self._running:
            return
        self._scheduler.take(report)
        if report.outcome is not None:
            del self._running[key]
        elif self._running[key].add_report(report) == self._points_left(key):
            self._stop_task(key)

    def _points_left(self, key: Key) -> int | None:
        """Return the number of reports after which a user's stop ends a task; None = no stop ends the task."""
        return self._stopped[key.trial].get(key.task, 0) if key.trial in self._stopped else None

    def _poll_user(self) -> bool:
        """Carry out the new user actions, and return whether there were any."""
        self._next_poll = self._seconds + self._seconds_between_polls
        has_acted = False
        for action in self._user_actions(self._scheduler.has_caught_up):
            has_acted, is_spent = True, self._scheduler.ended_by == "trials"
            self._carry_out(action)
            if is_spent and isinstance(action.request, Add) and action.request.retry_of is not None:
                # A search that is repeated from the record begins this retry as soon as a lane is free. Without budget,
                # the clock may have passed this time, so schedule all trials again. A callback acts at its own time.
                self._begin_scheduler()
                self._plan()
        return has_acted

    def _carry_out(self, action: UserAction) -> None:
        """Carry out a user action, and notify the observers."""
        self._apply(action)
        for observer in self._observers:
            observer.user_acted(action)

    def _apply(self, action: UserAction) -> None:
        """Write a user action to the record, and carry it out."""
        request, now = action.request, time.time()
        if isinstance(request, Add):
            self._scheduler.add_point(request, now, action.by)
            return
        if isinstance(request, Stop) and request.trial in self._stopped:
            # A stopped trial is open until the clock reaches its end, so a user may stop it twice.
            return
        recorded = RecordedAction("stop_search", self._scheduler.num_opened, now, action.by)
        if isinstance(request, End):
            self._write(replace(recorded, do="end_search", trials=self._num_trials))
            self._scheduler.is_out_of_time = True
        elif isinstance(request, Raise):
            self._write(replace(recorded, do="raise_budget", **vars(request)))
            self._num_trials = request.trials or self._num_trials
            self._minutes = request.minutes or self._minutes
            self._begin_scheduler()
            # The next action needs the running tasks on the new scheduler's clock.
            self._plan()
        elif request.trial is None:
            self._write(recorded)
            self._is_stopping = True
        else:
            begun = [key for key in (*self._running, *self._waiting) if key.trial == request.trial]
            ended: dict[int, int | None] = dict.fromkeys(self._record.trial(request.trial).outcomes)
            reports = {key: running.reports for key, running in self._running.items()}
            points = ended | {key.task: len(reports.get(key, ())) for key in begun}
            self._write(replace(recorded, do="stop_trial", trial=request.trial, points=points))
            self._stopped[request.trial] = points
            for key in begun:
                self._stop_task(key)

    def _write(self, recorded: RecordedAction) -> None:
        self._record.actions = [*self._record.actions, recorded]

    def _stop_task(self, key: Key) -> None:
        """Stop a task at a user's request; the task's outcome holds the task's reports so far."""
        running, worker = self._running.pop(key, None), 0
        if running is not None:
            worker = self._dispatcher.drop(running.task)
        elif key in self._waiting:
            self._waiting.remove(key)
        running = running or _RunningTask(self._scheduler.task(key), time.time(), self._dispatcher.now)
        outcome = running.stopped_by_user(self._record.goal, self._dispatcher.now, worker)
        # The clock may have passed the task's last report already, so the task ends one unit after that report.
        self._scheduler.take(TaskReport(running.task, outcome=outcome, is_lost=True))


def is_over(rules: Rules, record: Record, num_trials: int, minutes: float | None = None) -> bool:
    """Return whether the search is over: every trial has ended, and no further trial can begin."""
    if _stays_ended(rules, record):
        return True
    # Use the recorded costs: the cost of further trials has no influence here, and an objective may have to load its
    # data to compute a cost.
    scheduler = Scheduler(replace(rules, cost_of=lambda trial: trial.cost), record.copy(), num_trials)
    is_late = minutes is not None and seconds_spent(record) >= 60 * minutes
    scheduler.is_out_of_time = is_late or is_ended_by_callback(record, num_trials)
    return next(scheduler.advance(), None) is None


def is_ended_by_callback(record: Record, num_trials: int) -> bool:
    """Return whether a callback has ended the search.

    If a trial was opened later, or if the budget of trials is larger now, return false.
    """
    ends = [action for action in record.actions if action.do == "end_search"]
    return bool(ends) and len(record.trials()) <= ends[-1].after and num_trials <= (ends[-1].trials or 0)


def seconds_spent(record: Record) -> float:
    """Return the running time of the search so far in seconds; the time between two runs does not count."""
    # A search that was interrupted in its first seconds has no recorded duration: use the time spent in training.
    return float(record.ended.seconds) if record.ended else seconds_trained(record.trials())


def _stays_ended(rules: Rules, record: Record) -> bool:
    """Return whether a search with the order `free` stays ended by `stop_without_gain`.

    The search stays ended until the user increases or removes `stop_without_gain`, or a trial runs again. A scheduler
    cannot compute this from the record, because the record lacks the order in which the last results arrived.
    """
    ended, limit = record.ended, rules.stop_without_gain
    if rules.order != "free" or limit is None or not ended or ended.by != "stop_without_gain":
        return False
    return limit <= (ended.limit or 0) and all(trial.state != "running" for trial in record.trials())
