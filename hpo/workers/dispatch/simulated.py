"""Simulates a cluster of any number of workers. Its clock is simulated too, so that nothing has to wait."""

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from hpo.workers.dispatch.dispatcher import Gpus, Setup, TaskReport, report_of
from hpo.workers.dispatch.process.group import run_here
from hpo.workers.training.tasks import Task


class SimulatedDispatcher:
    """Runs each task in this process when the task starts, and returns reports in the order of their simulated times.

    In simulated time, a task takes the `seconds` that its objective returns, or its wall time if the objective returns
    no `seconds`. The reports of a task come at equal intervals. Tasks start in the order of `submit`, each on the
    worker that becomes free first; on ties, on the worker with the lower number. The simulated time starts at `now`. It
    does not advance while the search itself computes.
    """

    runs_here = True
    gpus = Gpus()

    def __init__(self, workers: int, import_from: str | None = None, now: float = 0.0) -> None:
        self.slots = workers
        self._import_from = import_from
        self._waiting: deque[Task] = deque()
        self._free = [(0.0, worker) for worker in range(1, workers + 1)]
        # The second field, a count, orders reports that are due at the same time.
        self._due: list[tuple[float, int, int, TaskReport]] = []
        self._count = itertools.count()
        self.now = now

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """Return a dispatcher with the arguments in `setup`."""
        return cls(setup.settings.workers or 1, setup.import_from, setup.now)

    def submit(self, task: Task) -> None:
        """Start the task if a worker is free; otherwise queue it."""
        self._waiting.append(task)
        self._start_waiting()

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:  # noqa: ARG002 -- the same call as its siblings
        """Advance the simulated time to the next report, and return that report; return nothing if there is none."""
        if not self._due:
            return ()
        self.now, _, worker, report = heapq.heappop(self._due)
        if report.outcome is not None or report.machine_fault is not None:
            heapq.heappush(self._free, (self.now, worker))
            self._start_waiting()
        return (report,)

    def drop(self, task: Task) -> int:
        """Drop a task.

        If the task is waiting, return 0. If the task is running, free its worker, and return the worker's number.
        """
        if task in self._waiting:
            self._waiting.remove(task)
            return 0
        worker = next(worker for _, _, worker, report in self._due if report.task is task)
        self._due = [each for each in self._due if each[3].task is not task]
        heapq.heapify(self._due)
        heapq.heappush(self._free, (self.now, worker))
        self._start_waiting()
        return worker

    def save_and_end(self, seconds: float) -> Sequence[TaskReport]:  # noqa: ARG002 -- the same call as its siblings
        """Return no outcome, because there is no training to end.

        This dispatcher runs each task to its end as soon as the task starts.
        """
        return ()

    def close(self) -> None:
        """Drop all tasks."""
        self._waiting.clear()
        self._due.clear()

    def _start_waiting(self) -> None:
        while self._waiting and self._free:
            task = self._waiting.popleft()
            _, worker = heapq.heappop(self._free)
            reports = [report_of(task, message) for message in run_here(task.payload, self._import_from)]
            seconds = 0.0
            if (outcome := reports[-1].outcome) is not None:
                reports[-1] = replace(reports[-1], outcome=replace(outcome, started=self.now, worker=worker))
                seconds = outcome.seconds
            for place, report in enumerate(reports, start=1):
                due = self.now + seconds * place / len(reports)
                heapq.heappush(self._due, (due, next(self._count), worker, report))
