"""Searches for fronts on simulated workers at equal time: ours by the clock and in free order, and Optuna's samplers.

Optuna's are asked whenever a worker is free. Trainings that run are running trials to its TPE, which takes them for bad
ones (constant liar, the default of Optuna 5); its NSGA-II breeds from complete trials only.
"""

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.fronts.cases import BUDGETS, CASES, OURS, SAMPLERS, Case, case
from benchmarks.shared.peers import with_optuna
from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions, difference, markdown, with_interval
from benchmarks.shared.tables import space_of
from benchmarks.shared.workers import Enough, Times, Workers
from hpo.engine.loop import search
from hpo.engine.schedule.rules import Order, Rules
from hpo.engine.strategies import make_strategy
from hpo.trials.fronts import Array
from hpo.trials.record.record import memory_record
from hpo.trials.trial import Outcome, TaskLayout
from hpo.workers.dispatch.dispatcher import TaskReport

ORDERS: tuple[Order, ...] = ("clock", "free")
PEERS = ("Optuna NSGAIISampler", "Optuna TPESampler")


class FrontWorkers(Workers):
    """Simulated workers whose trainings have the metrics of a table's rows; `found`: when each ended, its losses."""

    def __init__(self, workers: int, of: Case, times: Times) -> None:
        super().__init__(workers, times.seconds, lambda _: 0.0, max(BUDGETS) * times.mean / workers)
        self.found: list[tuple[float, tuple[float, ...]]] = []
        self._of = of

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:
        """Return the outcome of the task that ends next; raise Enough where that is after the end."""
        (report,) = super().wait(timeout)
        losses = self._of.losses_of(self.trials[report.task.trial].point)
        self.found.append((self.now, losses))
        return [TaskReport(report.task, outcome=Outcome(self._of.goal.scores(losses), seconds=1.0))]


def regrets(method: str, of: Case, workers: int, order: Order, seed: int) -> list[float]:
    """Return one search's regrets at the wall time in which the workers could do 30, 60 and 100 trials' work."""
    times = Times(seed, 0.6, 0.15)
    pool = FrontWorkers(workers, of, times)
    if method in SAMPLERS:
        sampler, patience = SAMPLERS[method]
        with_optuna(sampler(seed), patience, of.values, (), of.losses, pool, seed)
    else:
        settings = strategy_settings(method)
        strategy: Any = make_strategy(settings, space_of(of.name), seed)
        rules = Rules(
            strategy=strategy,
            tasks_of=pool.tasks_of,
            cost_of=lambda trial: times.cost(trial.key),
            lanes=workers * 3 // 2,
            order=order,
        )
        with contextlib.suppress(Enough):
            search(rules, memory_record(of.goal, TaskLayout()), pool, 10 * max(BUDGETS))
    ends = [budget * times.mean / workers for budget in BUDGETS]
    found = [[losses for at, losses in pool.found if at <= end] for end in ends]
    return [of.regret(losses) if losses else 1.0 for losses in found]


def by_workers(searches: int) -> str:
    """Return the regrets of all methods, and the differences of ours to the better peer at each time.

    Lanes: one and a half times the workers; durations log-normal (sigma 0.6), of which cost predicts all but 0.15.
    """
    orders: list[tuple[str, Order]] = [
        *itertools.product(("random", *OURS), ORDERS),
        *((peer, "free") for peer in PEERS),
    ]
    head = ["method", "workers", "order", *(f"at {budget}" for budget in BUDGETS)]
    rows, gaps = [], []
    for workers in (8, 32):
        of_all: dict[tuple[str, Order], Array] = {}
        for method, order in orders:
            runs = itertools.product(CASES[:1] + CASES[3:4], range(searches))
            of_all[method, order] = np.array([regrets(method, case(*of), workers, order, seed) for of, seed in runs]).T
            rows.append([method, str(workers), order, *map(with_interval, of_all[method, order])])
        for method, order in itertools.product(OURS, ORDERS):
            gap = []
            for place, mine in enumerate(of_all[method, order]):
                theirs = min((of_all[peer, "free"][place] for peer in PEERS), key=np.mean)
                gap.append("{:+.3f} ({:+.3f} to {:+.3f})".format(*difference(mine, theirs)))
            gaps.append([method, str(workers), order, *gap])
    tables = [markdown(head, rows), "Difference to the better peer:", markdown(head, gaps)]
    return "\n\n".join([conditions(), *tables])
