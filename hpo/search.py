"""The loop: ask the strategy for a round, run it, write it down, and ask again until the budget ends."""

from collections import deque
from collections.abc import Callable, Sequence

from hpo.dispatch.protocol import Dispatcher, Report
from hpo.errors import StudyError
from hpo.observer import Observer
from hpo.record import Record
from hpo.space import Point, point_key
from hpo.strategies.protocol import Strategy
from hpo.trials import History, Task, Trial


def search(
    strategy: Strategy,
    record: Record,
    dispatcher: Dispatcher,
    tasks_of: Callable[[Trial], Sequence[Task]],
    num_trials: int,
    observers: Sequence[Observer] = (),
) -> History:
    """Run the study to its budget and return all its trials.

    A round that was begun earlier, by a driver that died or under a smaller budget, is finished first. The
    strategy only ever sees whole rounds, so the trials do not depend on the workers.

    Args:
        strategy: proposes the points.
        record: what has happened so far, and where everything is written down.
        dispatcher: runs the tasks.
        tasks_of: returns the tasks of a trial, one a fold.
        num_trials: the budget; the round that crosses it is cut.
        observers: are told what happens.

    Raises:
        StudyError: when the strategy no longer proposes what the record holds.
    """
    trials = record.trials()
    round_number = trials[-1].round if trials else 0
    while True:
        earlier = History(trial for trial in trials if trial.round < round_number)
        begun = trials[len(earlier) :]
        if len(earlier) >= num_trials:
            return earlier
        points = strategy.next_round(earlier)[: num_trials - len(earlier)]
        _refuse_other_points(begun, points)
        if not points:
            return earlier
        opened = _Round(round_number, begun, points, record, tasks_of, observers)
        trials = [*earlier, *opened.run(dispatcher)]
        round_number += 1


def is_over(strategy: Strategy, record: Record, num_trials: int) -> bool:
    """Return whether nothing is left to run: every trial is finished, and the budget or the space is spent."""
    trials = record.trials()
    if any(trial.state == "running" for trial in trials):
        return False
    if len(trials) >= num_trials:
        return True
    # The last round may have been cut, by a smaller budget or by a driver that died between two trials.
    last_round = trials[-1].round if trials else 0
    earlier = History(trial for trial in trials if trial.round < last_round)
    if len(trials) < len(earlier) + len(strategy.next_round(earlier)):
        return False
    return not strategy.next_round(History(trials))


class _Round:
    """The points of one round on their way through the workers."""

    def __init__(
        self,
        number: int,
        begun: Sequence[Trial],
        points: Sequence[Point],
        record: Record,
        tasks_of: Callable[[Trial], Sequence[Task]],
        observers: Sequence[Observer],
    ) -> None:
        self._number = number
        self._trials = {trial.number: trial for trial in begun}
        self._interrupted = deque(trial for trial in begun if trial.state == "running")
        self._new_points = deque(points[len(begun) :])
        self._tasks: deque[Task] = deque()
        self._record = record
        self._tasks_of = tasks_of
        self._observers = observers

    def run(self, dispatcher: Dispatcher) -> list[Trial]:
        """Run what is not finished and return the round's trials in the order of their numbers."""
        in_flight: set[tuple[int, int]] = set()
        while True:
            while len(in_flight) < dispatcher.slots and (task := self._next_task()):
                dispatcher.submit(task)
                in_flight.add((task.trial, task.fold))
            if not in_flight:
                return [self._trials[number] for number in sorted(self._trials)]
            for report in dispatcher.wait():
                key = (report.task.trial, report.task.fold)
                # A late or repeated report of a task that has its outcome changes nothing.
                if key in in_flight:
                    self._take(report)
                    in_flight -= {key} if report.outcome is not None else set()

    def _next_task(self) -> Task | None:
        """Return the next task, opening the next trial when the last one has no more."""
        while not self._tasks:
            if self._interrupted:
                trial = self._interrupted.popleft()
            elif self._new_points:
                trial = self._record.open_trial(self._number, self._new_points.popleft())
            else:
                return None
            self._trials[trial.number] = trial
            self._tasks.extend(task for task in self._tasks_of(trial) if task.fold not in trial.outcomes)
            for observer in self._observers:
                observer.trial_opened(trial)
        return self._tasks.popleft()

    def _take(self, report: Report) -> None:
        """Write an outcome down first, then tell whoever watches."""
        trial = self._trials[report.task.trial]
        if report.outcome is not None:
            trial = self._record.add_outcome(trial.number, report.task.fold, report.outcome)
            self._trials[trial.number] = trial
        for observer in self._observers:
            observer.reported(trial, report)
            if report.outcome is not None and trial.state != "running":
                observer.trial_finished(trial)


def _refuse_other_points(begun: Sequence[Trial], points: Sequence[Point]) -> None:
    for trial, point in zip(begun, points, strict=False):
        if trial.key != point_key(point):
            raise StudyError(
                f"record: trial {trial.number} holds {trial.key}, the strategy now proposes {point_key(point)}; "
                f"the strategy or a library that it uses has changed since: start a new study"
            )
    if len(begun) > len(points):
        raise StudyError(
            f"record: round {begun[0].round} holds {len(begun)} trials, the strategy now proposes {len(points)}; "
            f"raise study.trials to what it was, or start a new study"
        )
