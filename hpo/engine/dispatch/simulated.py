"""A simulated cluster: any number of workers on a simulated clock, without waiting."""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from hpo.engine.dispatch.dispatcher import Report, report_of
from hpo.engine.training.payload import Task
from hpo.engine.training.worker import run_task


class SimulatedDispatcher:
    """Runs every task at once, in this process, and reports it when it would have ended on `workers` workers.

    A task takes the `seconds` that its objective returns (its wall time if it returns none). Tasks start in the order
    of `submit`, each on the worker that is free first; ties go to the lower number. The clock begins at 0 and stands
    still while the search itself computes.
    """

    runs_here = True

    def __init__(self, workers: int, import_from: str | None = None) -> None:
        self.slots = workers
        self._import_from = import_from
        self._waiting: deque[Task] = deque()
        self._free = [(0.0, worker) for worker in range(1, workers + 1)]
        self._running: list[tuple[float, int, int, list[Report]]] = []
        self._num_started = 0
        self.clock = 0.0

    def submit(self, task: Task) -> None:
        """Start the task on a free worker, or queue it."""
        self._waiting.append(task)
        self._start_waiting()

    def wait(self, timeout: float | None = None) -> Sequence[Report]:  # noqa: ARG002 -- the same call as its siblings
        """Move the clock to the end of the task that ends next; return its reports."""
        if not self._running:
            return ()
        ended, _, worker, reports = heapq.heappop(self._running)
        self.clock = ended
        heapq.heappush(self._free, (ended, worker))
        self._start_waiting()
        return reports

    def close(self) -> None:
        """Drop all tasks."""
        self._waiting.clear()
        self._running.clear()

    def _start_waiting(self) -> None:
        while self._waiting and self._free:
            task = self._waiting.popleft()
            _, worker = heapq.heappop(self._free)
            reports = [report_of(task, message) for message in run_task(task.payload, self._import_from)]
            ended = self.clock
            if (outcome := reports[-1].outcome) is not None:
                reports[-1] = Report(task, outcome=replace(outcome, started=self.clock, worker=worker))
                ended += outcome.seconds
            # The count keeps tasks that end together in the order of their start.
            self._num_started += 1
            heapq.heappush(self._running, (ended, self._num_started, worker, reports))
