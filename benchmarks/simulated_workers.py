"""Simulated workers that train rows of a measured table in durations that nobody knows beforehand."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hpo.engine.dispatch.dispatcher import Report
from hpo.engine.training.payload import Payload, Task
from hpo.engine.trials.trial import Outcome, Trial, training_seed

_NOTHING = Payload("", {}, "loss", "minimize")
Seconds = Callable[[str], float]


class TimeIsUp(Exception):  # noqa: N818
    """The simulated time is over."""


@dataclass(frozen=True)
class Times:
    """How long trainings take, and what their cost predicts, by the key of their point.

    Attributes:
        seed: of the durations.
        sigma: standard deviation of the logarithm of the durations; their median is 1.
        error: that of the logarithm of a duration over its cost: 0 = cost predicts it exactly.
    """

    seed: int
    sigma: float
    error: float

    def cost(self, key: str) -> float:
        """Return the cost of a training."""
        return float(np.exp(self.sigma * self._normal(key, 0)))

    def seconds(self, key: str) -> float:
        """Return how long a training takes."""
        return float(np.exp(self.sigma * self._normal(key, 0) + self.error * self._normal(key, 1)))

    def _normal(self, key: str, which: int) -> float:
        return float(np.random.default_rng(training_seed(self.seed, key, 0, which)).normal())

    @property
    def mean(self) -> float:
        """The expected duration."""
        return float(np.exp((self.sigma**2 + self.error**2) / 2))


class Workers:
    """A dispatcher of simulated workers; `wait` moves the time to the end of the task that ends next.

    Attributes:
        time: now.
        finished: time and loss of every task that has ended.
        busy: seconds of training of all workers together, up to the end.
    """

    runs_here = True

    def __init__(
        self, workers: int, until: float, seconds_of: Callable[[Trial], float], loss_of: Callable[[Trial], float]
    ) -> None:
        self.slots = workers
        self.time = self.busy = 0.0
        self.finished: list[tuple[float, float]] = []
        self._until = until
        self._seconds_of, self._loss_of = seconds_of, loss_of
        self._running: list[tuple[float, int, Task, float]] = []
        self.trials: dict[int, Trial] = {}

    def submit(self, task: Task) -> None:
        """Start a task on a free worker."""
        seconds = self._seconds_of(self.trials[task.trial])
        self.busy += max(0.0, min(self.time + seconds, self._until) - self.time)
        heapq.heappush(self._running, (self.time + seconds, task.trial, task, seconds))

    def wait(self, timeout: float | None = None) -> Sequence[Report]:  # noqa: ARG002 -- the protocol's
        """Return the outcome of the task that ends next; TimeIsUp when that is after the end."""
        ended, _, task, seconds = heapq.heappop(self._running)
        if ended > self._until:
            raise TimeIsUp
        self.time = ended
        loss = self._loss_of(self.trials[task.trial])
        self.finished.append((ended, loss))
        return [Report(task, outcome=Outcome({"loss": loss}, seconds=seconds))]

    def close(self) -> None:
        """Nothing runs."""
