"""Searches without training: trainings take durations that nobody knows beforehand, on any number of workers."""

import contextlib
import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hpo.engine.loop import search
from hpo.engine.schedule.rules import Order, Rules
from hpo.trials.goal import Goal
from hpo.trials.record.record import Record, memory_record
from hpo.trials.space.space import Point
from hpo.trials.trial import Outcome, TaskLayout, Trial, training_seed
from hpo.workers.dispatch.dispatcher import Gpus, TaskReport
from hpo.workers.training.tasks import Payload, Task

_NOTHING = Payload("", {}, "loss", "minimize")


class Enough(Exception):  # noqa: N818
    """The simulated time is over, the budget is spent, or the optimum was found."""


@dataclass(frozen=True)
class Times:
    """How long trainings take, and what their cost predicts, by the key of their point.

    Attributes:
        seed: of the durations.
        sigma: standard deviation of the logarithm of the durations; their median is 1.
        error: that of the logarithm of a duration over its cost: 0 = cost predicts it exactly.
        own: costs by key, of a table that has them, in place of those that are drawn with `sigma`.
    """

    seed: int
    sigma: float
    error: float
    own: Mapping[str, float] = field(default_factory=dict)

    def cost(self, key: str) -> float:
        """Return the cost of a training."""
        return self.own[key] if self.own else float(np.exp(self.sigma * self._normal(key, 0)))

    def seconds(self, key: str) -> float:
        """Return how long a training takes."""
        return self.cost(key) * float(np.exp(self.error * self._normal(key, 1)))

    def _normal(self, key: str, which: int) -> float:
        return float(np.random.default_rng(training_seed(self.seed, key, 0, which)).normal())

    @property
    def mean(self) -> float:
        """The expected duration."""
        mean = float(np.mean(list(self.own.values()))) if self.own else float(np.exp(self.sigma**2 / 2))
        return mean * float(np.exp(self.error**2 / 2))


class Workers:
    """A dispatcher of simulated workers; `wait` moves the time to the end of the task that ends next.

    A point whose loss is None fails.

    Attributes:
        now: the simulated time.
        busy: seconds of training of all workers together, up to the end.
        finished: time and loss of every training that has ended.
        trials: those whose tasks were built, by their numbers.
    """

    runs_here = True
    gpus = Gpus()

    def __init__(
        self,
        workers: int,
        seconds_of: Callable[[str], float],
        loss_of: Callable[[Point], float | None],
        until: float = np.inf,
        optimum: float = -np.inf,
    ) -> None:
        self.slots = workers
        self.now = self.busy = 0.0
        self.finished: list[tuple[float, float]] = []
        self.trials: dict[int, Trial] = {}
        self._seconds_of, self._loss_of = seconds_of, loss_of
        self._until, self._optimum = until, optimum
        self._running: list[tuple[float, int, Task, float]] = []

    def tasks_of(self, trial: Trial) -> list[Task]:
        """Return the trial's only task."""
        self.trials[trial.number] = trial
        return [Task(trial.number, 0, _NOTHING)]

    def submit(self, task: Task) -> None:
        """Start a task on a free worker."""
        seconds = self._seconds_of(self.trials[task.trial].key)
        self.busy += min(self.now + seconds, self._until) - self.now
        heapq.heappush(self._running, (self.now + seconds, task.trial, task, seconds))

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:  # noqa: ARG002 -- the protocol's
        """Return the outcome of the task that ends next; raise Enough where that is after the end."""
        ended, _, task, seconds = heapq.heappop(self._running)
        if ended > self._until or (self.finished and self.finished[-1][1] <= self._optimum):
            raise Enough
        self.now = ended
        loss = self._loss_of(self.trials[task.trial].point)
        if loss is None:
            return [TaskReport(task, outcome=Outcome(error="cannot be trained", seconds=seconds))]
        self.finished.append((ended, loss))
        return [TaskReport(task, outcome=Outcome({"loss": loss}, seconds=seconds))]

    def close(self) -> None:
        """Nothing runs."""


def run(strategy: Any, workers: Workers, times: Times, lanes: int, num_trials: int, order: Order = "clock") -> Record:
    """Search until the budget is spent or the workers have enough; return the record."""
    record = memory_record(Goal({"loss": "minimize"}), TaskLayout())
    rules = Rules(
        strategy=strategy,
        tasks_of=workers.tasks_of,
        cost_of=lambda trial: times.cost(trial.key),
        lanes=lanes,
        order=order,
    )
    with contextlib.suppress(Enough):
        search(rules, record, workers, num_trials)
    return record


def losses(
    strategy: Any,
    loss_of: Callable[[Point], float],
    num_trials: int,
    lanes: int = 1,
    seed: int = 0,
    optimum: float = -np.inf,
) -> list[float]:
    """Return the losses of a search's trials in the order of their numbers, up to the one that finds the optimum.

    With several lanes costs are log-normal with a sigma of 0.6; with one they do not matter.
    """
    times = Times(seed, 0.6, 0.0)
    record = run(strategy, Workers(1, times.seconds, loss_of, optimum=optimum), times, lanes, num_trials)
    return [trial.loss for trial in record.trials() if trial.state == "complete"]
