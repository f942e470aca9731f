"""Runs a few tasks to completion: the finalists, the final model, a reproduction."""

from collections import deque
from collections.abc import Iterable, Iterator

from hpo.engine.dispatch.dispatcher import Dispatcher
from hpo.engine.training.payload import Task
from hpo.engine.trials.trial import Outcome


def outcomes(dispatcher: Dispatcher, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome]]:
    """Yield each task with its outcome as it arrives, with one task per slot of the dispatcher at a time.

    Raises:
        MachineError: the machine could not run a task.
    """
    waiting, in_flight = deque(tasks), 0
    while waiting or in_flight:
        while waiting and in_flight < dispatcher.slots:
            dispatcher.submit(waiting.popleft())
            in_flight += 1
        for report in dispatcher.wait():
            if (outcome := report.settled()) is not None:
                in_flight -= 1
                yield report.task, outcome
