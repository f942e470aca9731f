"""Runs the trials of one round on the workers."""

from collections import deque
from collections.abc import Callable, Sequence

from hpo.engine.dispatch.dispatcher import Dispatcher, Report
from hpo.engine.observer import Observer
from hpo.engine.race import Race
from hpo.engine.record.record import Record
from hpo.engine.training.payload import Task
from hpo.engine.trials.trial import Proposal, Trial


class Round:
    """Opens trials, submits their tasks, and takes the reports, in any order.

    Args:
        number: the round's.
        begun: its trials that are already in the record.
        proposals: all its proposals, including those begun.
        record: where everything is written first.
        tasks_of: returns the tasks of a trial.
        observers: are notified afterwards.
        race: decides which trials get no tasks after their first ones; None = all trials get all tasks.
    """

    def __init__(
        self,
        number: int,
        begun: Sequence[Trial],
        proposals: Sequence[Proposal],
        record: Record,
        tasks_of: Callable[[Trial], Sequence[Task]],
        observers: Sequence[Observer],
        race: Race | None = None,
    ) -> None:
        self._number = number
        self._trials = {trial.number: trial for trial in begun}
        self._interrupted = deque(trial for trial in begun if trial.state == "running")
        self._new_proposals = deque(proposals[len(begun) :])
        self._tasks: deque[Task] = deque()
        self._record = record
        self._tasks_of = tasks_of
        self._observers = observers
        self._race = race
        # Each trial is judged once, when its first tasks have outcomes; its later tasks wait for that.
        self._waiting: dict[int, list[Task]] = {}
        self._unjudged = {trial.number for trial in begun}

    def run(self, dispatcher: Dispatcher) -> list[Trial]:
        """Run what is not finished and return the round's trials in the order of their numbers."""
        in_flight: set[tuple[int, int]] = set()
        self._judge()
        while True:
            while len(in_flight) < dispatcher.slots and (task := self._next_task()):
                dispatcher.submit(task)
                in_flight.add((task.trial, task.index))
            if not in_flight:
                return [self._trials[number] for number in sorted(self._trials)]
            for report in dispatcher.wait():
                key = (report.task.trial, report.task.index)
                # A late or repeated report of a task with an outcome changes nothing.
                if key in in_flight:
                    self._take(report)
                    in_flight -= {key} if report.outcome is not None else set()

    def _next_task(self) -> Task | None:
        """Return the next task; open the next trial when the previous one has no more."""
        while not self._tasks:
            if self._interrupted:
                trial = self._trials[self._interrupted.popleft().number]
            elif self._new_proposals:
                trial = self._record.open_trial(self._number, self._new_proposals.popleft())
                self._unjudged.add(trial.number)
            else:
                return None
            self._trials[trial.number] = trial
            if trial.state == "running":
                self._queue(trial)
                for observer in self._observers:
                    observer.trial_opened(trial)
        return self._tasks.popleft()

    def _queue(self, trial: Trial) -> None:
        missing = [task for task in self._tasks_of(trial) if task.index not in trial.outcomes]
        if self._race and trial.number in self._unjudged:
            self._tasks.extend(task for task in missing if task.index < self._race.tasks)
            self._waiting[trial.number] = [task for task in missing if task.index >= self._race.tasks]
        else:
            self._tasks.extend(missing)

    def _take(self, report: Report) -> None:
        """Write an outcome, then notify the observers."""
        trial, outcome = self._trials[report.task.trial], report.settled()
        if outcome is not None:
            trial = self._record.add_outcome(trial.number, report.task.index, outcome)
            self._trials[trial.number] = trial
        for observer in self._observers:
            observer.reported(trial, report)
            if report.outcome is not None and trial.state != "running":
                observer.trial_finished(trial)
        if report.outcome is not None:
            self._judge()

    def _judge(self) -> None:
        """Decide on every trial whose first tasks have outcomes."""
        if self._race is None:
            return
        for number in sorted(self._unjudged):
            trial = self._trials[number]
            if not self._race.is_ready(trial):
                continue
            self._unjudged.remove(number)
            if trial.state == "running" and self._race.is_behind(trial):
                self._trials[number] = trial = self._record.stop(number)
                for observer in self._observers:
                    observer.trial_finished(trial)
            self._tasks.extend(self._waiting.pop(number, []) if trial.state == "running" else [])
