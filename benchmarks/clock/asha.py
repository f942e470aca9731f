"""Stopping early on simulated clusters: our asha and median rule, and Ray Tune's ASHA as it would run there.

"Trained" are the Transformer translation systems of ../shared/data/tables whose development perplexity was recorded
every 2,000 updates (lower is better). A whole training takes a log-normal time (sigma 0.6), each point of its curve an
equal part of it. Counted up to the time in which the workers could do 5, 10 and 20 whole trainings: the share of the
time in which they were busy, and the regret of the best point of any curve so far, (best - optimum) / (median -
optimum), where the median is that of all systems' best.

Methods: `evolutionary` and `random` train every system to its end; with `median` a training is stopped by
`study.stop_rule=median`; `asha` is ours, on the clock (cost off by exp(0.3 z), half as many lanes again as workers) or
in free order; `Ray Tune's ASHA` is its AsyncHyperBandScheduler, asked at every point, with random search. All halving
has eta 3, from a 27th of the median length of the curves up to that length. A pair has some 125 systems: a method that
has tried them all ends, and its workers are idle from then on.
"""

import argparse
import contextlib
import heapq
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.search_quality.halving import ETA, PAIRS, POINTS, study_of
from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions, markdown
from benchmarks.shared.workers import Enough, Times, Workers
from hpo.engine.loop import search
from hpo.engine.schedule.rules import Rules
from hpo.engine.schedule.stopping import StopRule
from hpo.engine.strategies import make_strategy
from hpo.trials.goal import Goal
from hpo.trials.record.record import memory_record
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Outcome, TaskLayout, Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.training.tasks import Task
from hpo.workers.training.worker import Limits, outcome_of, run_task

BUDGETS = (5, 10, 20)
SIGMA, ERROR = 0.6, 0.3
_NOTHING = 1.0

Curve = Sequence[float]


@cache
def curves_of(pair: str) -> tuple[Space, Mapping[str, Curve]]:
    """Return the space of a pair, and the learning curve of each of its points by key."""
    study = study_of(pair)
    builder = study.task_builder()
    found = {}
    for point in study.space.points():
        outcome = outcome_of(run_task(builder.tasks_of(Trial(0, 0, point))[0].payload))
        if outcome.curve:
            found[point_key(point)] = [value["dev_ppl"] for value in outcome.curve]
    return study.space, found


class CurveWorkers(Workers):
    """Simulated workers that report every point of a learning curve."""

    def __init__(self, workers: int, times: Times, curves: Mapping[str, Curve], until: float) -> None:
        super().__init__(workers, times.seconds, lambda _point: None, until)
        self._curves = curves
        self._count = itertools.count()
        self._due: list[tuple[float, int, TaskReport]] = []
        self._ends: dict[int, float] = {}

    def submit(self, task: Task) -> None:
        """Start a task on a free worker; what it will report is known already."""
        trial = self.trials[task.trial]
        curve = self._curves[trial.key]
        end = min(trial.amount or len(curve), len(curve))
        start = min(trial.trained, end)
        place_seconds = self._seconds_of(trial.key) / len(curve)
        limits, at, reached, stopped = Limits(task.payload), self.now, start, None
        for place in range(start, end):
            point, units, reached = {"epoch": place + 1.0, "loss": curve[place]}, place + 1 - start, place + 1
            at += place_seconds
            # At its last point a training keeps its own result.
            stopped = limits.stops(point) if reached < end else None
            goes_on = reached < end and stopped is None
            self._push(at, TaskReport(task, point=point, units=units, goes_on=goes_on))
            if stopped:
                break
        self._ends[task.trial] = at
        self.busy += min(at, self._until) - self.now
        points = [{"epoch": place + 1.0, "loss": curve[place]} for place in range(start, reached)]
        units = max(1, reached - start)
        self._push(
            at, TaskReport(task, outcome=Outcome({"loss": min(curve[:reached])}, points, units=units, stopped=stopped))
        )

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:  # noqa: ARG002 -- the protocol's
        """Move the time to the next report, and return it; raise Enough where that is after the end."""
        self.now, _, report = heapq.heappop(self._due)
        if self.now > self._until:
            raise Enough
        if report.point is not None:
            self.finished.append((self.now, report.point["loss"]))
        return [report]

    def cancel(self, number: int) -> None:
        """End a trial now: its worker is free."""
        self.busy -= min(self._ends[number], self._until) - self.now
        self._due = [entry for entry in self._due if entry[2].task.trial != number]
        heapq.heapify(self._due)

    def _push(self, at: float, report: TaskReport) -> None:
        heapq.heappush(self._due, (at, next(self._count), report))


def ours(pair: str, workers: CurveWorkers, times: Times, method: str, seed: int) -> None:
    """Let one of our strategies search until the workers' time is over."""
    space, curves = curves_of(pair)
    longest = int(statistics.median(map(len, curves.values())))
    name = method.partition(",")[0]
    settings = strategy_settings(name)
    if name == "asha":
        settings |= {"min_amount": math.ceil(longest / POINTS), "max_amount": longest, "eta": ETA}
    rules = Rules(
        strategy=make_strategy(settings, space, seed),
        tasks_of=workers.tasks_of,
        cost_of=lambda trial: times.cost(trial.key) / len(curves[trial.key]),
        lanes=round(1.5 * workers.slots),
        order="free" if "free" in method else "clock",
        stop_rule=StopRule(1, Goal({"loss": "minimize"})) if "median" in method else None,
    )
    with contextlib.suppress(Enough):
        search(rules, memory_record(Goal({"loss": "minimize"}), TaskLayout()), workers, 100 * max(BUDGETS))


def ray_tune(pair: str, workers: CurveWorkers, seed: int) -> None:
    """Let Ray Tune's ASHA decide at every point; free workers take random points."""
    from ray.tune.schedulers import AsyncHyperBandScheduler

    space, curves = curves_of(pair)
    longest = int(statistics.median(map(len, curves.values())))
    scheduler: Any = AsyncHyperBandScheduler(
        metric="loss", mode="min", max_t=longest, grace_period=math.ceil(longest / POINTS), reduction_factor=ETA
    )
    order: list[Point] = [point for point in space.points() if point_key(point) in curves]
    np.random.default_rng(seed).shuffle(order)
    np.random.seed(seed)
    running: dict[int, Any] = {}
    reached: dict[int, int] = {}
    numbers = iter(range(len(order)))
    with contextlib.suppress(Enough):
        while True:
            while len(running) < workers.slots and (number := next(numbers, None)) is not None:
                running[number], reached[number] = SimpleNamespace(trial_id=str(number)), 0
                scheduler.on_trial_add(None, running[number])
                workers.submit(workers.tasks_of(Trial(number, number, order[number]))[0])
            if not running:
                return
            for report in workers.wait():
                number = report.task.trial
                if report.outcome is not None:
                    del running[number]
                    continue
                reached[number] += 1
                assert report.point is not None
                result = {"training_iteration": reached[number], "loss": report.point["loss"]}
                if scheduler.on_trial_result(None, running[number], result) == "STOP":
                    workers.cancel(number)
                    del running[number]


METHODS = (
    *("random", "random, median", "evolutionary", "evolutionary, median"),
    *("asha", "asha, free", "Ray Tune's ASHA"),
)


def searched(workers: int, method: str, pair: str, seed: int) -> tuple[int, str, list[float]]:
    """Run one search; return the regrets at the budgets, and how busy the workers were."""
    _, curves = curves_of(pair)
    bests = [min(curve) for curve in curves.values()]
    times = Times(seed, SIGMA, ERROR)
    until = max(BUDGETS) * times.mean / workers
    cluster = CurveWorkers(workers, times, curves, until)
    if method == "Ray Tune's ASHA":
        ray_tune(pair, cluster, seed)
    else:
        ours(pair, cluster, times, method, seed)
    regrets = []
    for budget in BUDGETS:
        end = until * budget / max(BUDGETS)
        best = min((loss for at, loss in cluster.finished if at <= end), default=None)
        scale = statistics.median(bests) - min(bests)
        regrets.append(_NOTHING if best is None else (best - min(bests)) / scale)
    return workers, method, [*regrets, cluster.busy / (until * workers), float(len(cluster.trials))]


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 32], help="default: 8 32")
    parser.add_argument("--repeats", type=int, default=12, help="searches a method and pair; default 12")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="default: all")
    parser.add_argument("--jobs", type=int, default=1, help="processes; default 1")
    arguments = parser.parse_args()
    wanted = list(itertools.product(arguments.workers, arguments.methods, PAIRS, range(arguments.repeats)))
    groups: dict[tuple[int, str], list[list[float]]] = {}
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for workers, method, values in pool.map(searched, *zip(*wanted, strict=True)):
            groups.setdefault((workers, method), []).append(values)
    lines = []
    for (workers, method), rows in groups.items():
        *regrets, busy, trials = np.mean(rows, axis=0)
        cells = [f"{regret:.3f}".removeprefix("0") for regret in regrets]
        lines.append([str(workers), method, *cells, f"{busy:.2f}", f"{trials:.0f}"])
    head = ["workers", "method", *(f"regret at {budget}" for budget in BUDGETS), "busy", "trials"]
    print(conditions() + "\n\n" + markdown(head, lines))


if __name__ == "__main__":
    main()
