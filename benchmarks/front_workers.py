"""Searches for fronts on simulated workers, by the clock and in free order, at equal time."""

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import yaml
from front_cases import BUDGETS, CASES, OURS, Case, case
from search_quality import CONF, space_of
from search_report import conditions, with_interval
from simulated_workers import Enough, Times, Workers

from hpo.engine.course.rules import Order, Rules
from hpo.engine.dispatch.dispatcher import TaskReport
from hpo.engine.loop import search
from hpo.engine.record.record import memory_record
from hpo.engine.strategies import make_strategy
from hpo.engine.trials.trial import Outcome, TaskLayout

ORDERS: tuple[Order, ...] = ("clock", "free")


class FrontWorkers(Workers):
    """Simulated workers whose trainings have the metrics of a table's rows; `found`: the losses of those that ended."""

    def __init__(self, workers: int, of: Case, times: Times, until: float) -> None:
        super().__init__(workers, times.seconds, lambda _: 0.0, until)
        self.found: list[tuple[float, ...]] = []
        self._of = of

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:
        """Return the outcome of the task that ends next; raise Enough where that is after the end."""
        (report,) = super().wait(timeout)
        losses = self._of.losses_of(self.trials[report.task.trial].point)
        self.found.append(losses)
        return [TaskReport(report.task, outcome=Outcome(self._of.goal.scores(losses), seconds=1.0))]


def by_workers(searches: int) -> str:
    """Return the regrets at the wall time in which the workers could do 30, 60 and 100 trials' work, by the clock.

    Lanes: one and a half times the workers; durations log-normal (sigma 0.6), of which cost predicts all but 0.15.
    """
    lines = [conditions(), "", "| method | workers | order | at 30 | at 60 | at 100 |", "| --- " * 6 + "|"]
    for method, workers, order in itertools.product(("random", *OURS), (8, 32), ORDERS):
        regrets = []
        for (task, metrics), seed in itertools.product(CASES[:1] + CASES[3:4], range(searches)):
            of = case(task, metrics)
            row = []
            for budget in BUDGETS:
                times = Times(seed, 0.6, 0.15)
                pool = FrontWorkers(workers, of, times, until=budget * times.mean / workers)
                settings = yaml.safe_load((CONF / f"{method}.yaml").read_text())
                strategy: Any = make_strategy(settings, space_of(of.name), seed)
                rules = Rules(
                    strategy=strategy,
                    tasks_of=pool.tasks_of,
                    cost_of=lambda trial, times=times: times.cost(trial.key),
                    lanes=workers * 3 // 2,
                    order=order,
                )
                with contextlib.suppress(Enough):
                    search(rules, memory_record(of.goal, TaskLayout()), pool, 10 * budget)
                row.append(of.regret(pool.found) if pool.found else 1.0)
            regrets.append(row)
        cells = " | ".join(with_interval(column) for column in np.array(regrets).T)
        lines.append(f"| {method} | {workers} | {order} | {cells} |")
    return "\n".join(lines)
