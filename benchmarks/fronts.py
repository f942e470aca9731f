"""Quality of the front: how much hypervolume each method lacks after 30, 60 and 100 trials on measured tables.

The tables are the four grids of Transformer translation systems of ../shared/data/tables, each by BLEU against seconds,
BLEU against parameters, and all three. Losses are scaled by the best and worst of the whole table, the reference point
is 1.1; regret is 1 - hypervolume of what was found / hypervolume of the table's own front, lower is better. Every
method gets the same tables and budgets in one run. Ours search the rows that exist; Optuna's samplers are helped as
search_quality.py says: a repeated or absent point is not counted.

    python benchmarks/fronts.py --results fronts.csv --jobs 2
    python benchmarks/fronts.py limits        (shares of trials over a limit)
    python benchmarks/fronts.py workers       (8 and 32 workers by the clock, at equal time)
    python benchmarks/fronts.py proposals     (milliseconds of a proposal after 10,000 trials)

Every finished search is a row of `--results`, so that a stopped run continues where it stopped.
"""

import argparse
import contextlib
import csv
import heapq
import itertools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import yaml
from search_quality import CONF, GP_PATIENCE, PATIENCE, read, space_of
from search_report import conditions, difference, with_interval
from search_tables import DATA, NMT_KEYS, NMT_TASKS, Ranks, load
from simulated_workers import Enough, Times

from hpo.engine.course.rules import Rules
from hpo.engine.dispatch.dispatcher import Gpus, TaskReport
from hpo.engine.loop import search
from hpo.engine.record.record import memory_record
from hpo.engine.space.reader import space_from_dict
from hpo.engine.strategies import make_strategy
from hpo.engine.training.payload import Payload, Task
from hpo.engine.trials.fronts import Array, hypervolume, scale_of, scaled
from hpo.engine.trials.goal import Goal, Limit, finished
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Outcome, Proposal, TaskLayout, Trial

BUDGETS = (30, 60, 100)
COLUMNS = {
    "bleu": ("dev_bleu", "maximize"),
    "seconds": ("dev_gpu_time_s", "minimize"),
    "parameters": ("num_param", "minimize"),
}
METRICS = (("bleu", "seconds"), ("bleu", "parameters"), ("bleu", "seconds", "parameters"))
CASES = tuple(itertools.product(NMT_TASKS, METRICS))


@dataclass(frozen=True)
class Case:
    """A table with several metrics: the losses of each row by the ranks of its values, and the whole front's volume."""

    name: str
    goal: Goal
    values: Mapping[str, tuple[Any, ...]]
    losses: Mapping[Ranks, tuple[float, ...]]

    @property
    def all(self) -> Array:
        """The losses of all rows."""
        return np.array(list(self.losses.values()))

    def regret(self, found: Sequence[tuple[float, ...]]) -> float:
        """Return the share of the table's hypervolume that these rows lack."""
        scale = scale_of(self.all)
        volumes = [hypervolume(scaled(losses, scale)) for losses in (np.array(found), self.all)]
        return 1 - volumes[0] / volumes[1]

    def losses_of(self, point: Mapping[str, Any]) -> tuple[float, ...]:
        """Return the losses of a point of the space."""
        return self.losses[tuple(values.index(point[key]) for key, values in self.values.items())]


@cache
def case(task: str, metrics: tuple[str, ...]) -> Case:
    """Return a translation task by some of its columns."""
    rows = pd.read_csv(DATA / "nmt_hpo.csv")
    rows = rows[rows["task"] == task]
    goal = Goal({name: COLUMNS[name][1] for name in metrics})  # type: ignore[misc]
    values = load(task).values
    losses = {}
    for record in rows.to_dict("records"):
        ranks = tuple(values[key].index(record[key]) for key in NMT_KEYS)
        losses[ranks] = goal.losses({name: float(record[COLUMNS[name][0]]) for name in metrics})
    return Case(task, goal, values, losses)


def with_ours(name: str, of: Case, seed: int, trials: int, goal: Goal | None = None) -> list[tuple[float, ...]]:
    """Return the losses of one search by a strategy of ours, one trial after the other."""
    goal = goal or of.goal
    settings = yaml.safe_load((CONF / f"{name}.yaml").read_text())
    strategy: Any = make_strategy(settings, space_of(of.name), seed)
    known, found = History(), list[tuple[float, ...]]()
    while len(found) < trials:
        for proposed in strategy.propose(known, ())[: trials - len(found)]:
            losses = of.losses_of(proposed)
            trial = Trial(len(found), len(found), proposed)
            known = known.extended([finished(trial, {0: Outcome(of.goal.scores(losses))}, goal)])
            found.append(losses)
    return found


def with_optuna(
    sampler: Callable[[int], Any], patience: int, of: Case, seed: int, trials: int
) -> list[tuple[float, ...]]:
    """Return the losses of one sequential search by a sampler of Optuna's, helped as search_quality.py does."""
    import torch

    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    space = {key: optuna.distributions.IntDistribution(0, len(values) - 1) for key, values in of.values.items()}
    study = optuna.create_study(directions=["minimize"] * len(of.goal.metrics), sampler=sampler(seed))
    rng = np.random.default_rng(seed)
    found: dict[Ranks, tuple[float, ...]] = {}
    uncounted = 0
    while len(found) < trials:
        if uncounted == patience:
            untried = [ranks for ranks in of.losses if ranks not in found]
            ranks = untried[int(rng.integers(len(untried)))]
            point = dict(zip(space, ranks, strict=True))
            study.add_trial(
                optuna.trial.create_trial(params=point, distributions=dict(space), values=list(of.losses[ranks]))
            )
        else:
            trial = study.ask(dict(space))
            ranks = tuple(int(trial.params[key]) for key in space)
            worst = np.max(list(found.values()), axis=0).tolist() if found else None
            known = of.losses.get(ranks, worst)
            study.tell(trial, known, state=optuna.trial.TrialState.FAIL if known is None else None)
        is_new = ranks in of.losses and ranks not in found
        uncounted = 0 if is_new else uncounted + 1
        if is_new:
            found[ranks] = of.losses[ranks]
    return list(found.values())


METHODS: dict[str, Callable[[Case, int, int], list[tuple[float, ...]]]] = {
    "random": partial(with_ours, "random"),
    "evolutionary": partial(with_ours, "evolutionary"),
    "shifting_window": partial(with_ours, "shifting_window"),
    "Optuna NSGAIISampler": partial(
        with_optuna, lambda seed: optuna.samplers.NSGAIISampler(seed=seed, population_size=20), PATIENCE
    ),
    "Optuna TPESampler": partial(with_optuna, lambda seed: optuna.samplers.TPESampler(seed=seed), GP_PATIENCE),
    "Optuna GPSampler": partial(with_optuna, lambda seed: optuna.samplers.GPSampler(seed=seed), GP_PATIENCE),
}
OURS, PEERS = ("evolutionary", "shifting_window"), tuple(name for name in METHODS if name.startswith("Optuna"))
FIELDS = ("method", "task", "metrics", "seed", *(f"regret_{budget}" for budget in BUDGETS), "seconds")


def run_search(method: str, task: str, metrics: tuple[str, ...], seed: int) -> dict[str, Any]:
    """Run one search and return its row of the results."""
    of, start = case(task, metrics), time.process_time()
    found = METHODS[method](of, seed, max(BUDGETS))
    seconds = time.process_time() - start
    regrets = [of.regret(found[:budget]) for budget in BUDGETS]
    return dict(zip(FIELDS, [method, task, "+".join(metrics), seed, *regrets, round(seconds, 3)], strict=True))


def run_missing(path: Path, methods: Sequence[str], searches: int, jobs: int) -> None:
    """Run every search that is missing in the results."""
    done = {(row["method"], row["task"], row["metrics"], int(row["seed"])) for row in read(path)}
    wanted = [(method, *of, seed) for seed in range(searches) for method in methods for of in CASES]
    missing = [each for each in wanted if (each[0], each[1], "+".join(each[2]), each[3]) not in done]
    if not missing:
        return
    is_new = not path.exists()
    with path.open("a", newline="") as file, ProcessPoolExecutor(jobs) as pool:
        writer = csv.DictWriter(file, FIELDS)
        if is_new:
            writer.writeheader()
        for row in pool.map(run_search, *zip(*missing, strict=True)):
            writer.writerow(row)
            file.flush()


def summary(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the regrets by metrics and pooled, and the differences of ours to the best peer at each budget."""
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]

    def regrets(method: str, metrics: str | None = None) -> Array:
        chosen = [row for row in rows if row["method"] == method and metrics in (None, row["metrics"])]
        return np.array([[float(row[f"regret_{budget}"]) for budget in BUDGETS] for row in chosen])

    lines = [conditions(), ""]
    for metrics in (None, *("+".join(each) for each in METRICS)):
        lines += ["", f"{metrics or 'pooled'}: regret of hypervolume, mean (95 % bootstrap interval)", ""]
        lines += [f"| method | searches | {' | '.join(f'at {budget}' for budget in BUDGETS)} | CPU s |"]
        lines += ["| --- " * (len(BUDGETS) + 3) + "|"]
        for method in methods:
            values = regrets(method, metrics)
            spent = np.mean([float(row["seconds"]) for row in rows if row["method"] == method])
            cells = " | ".join(with_interval(column) for column in values.T)
            lines.append(f"| {method} | {len(values)} | {cells} | {spent:.2f} |")
    for mine, (place, budget) in itertools.product(OURS, enumerate(BUDGETS)):
        theirs = [name for name in methods if name in PEERS]
        if mine in methods and theirs:
            best = min(theirs, key=lambda name: regrets(name)[:, place].mean())
            gap = difference(regrets(mine)[:, place], regrets(best)[:, place])
            lines.append(f"{mine} - {best} at {budget}: {gap[0]:+.4f} ({gap[1]:+.4f} to {gap[2]:+.4f})")
    return "\n".join(lines)


def over_limits(searches: int) -> str:
    """Return the shares of trials over a limit, the median of a table's seconds or parameters, in searches by BLEU.

    The tables have 118 to 176 rows, half of which exceed it: of 100 trials of the smallest at least 41 must.
    """
    lines = [conditions(), "", "| method | at 30 | at 60 | at 100 | regret of BLEU within the limit at 100 |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for method in ("random", *OURS):
        shares, regrets = [], []
        for task, name, seed in itertools.product(NMT_TASKS, ("seconds", "parameters"), range(searches)):
            of = case(task, ("bleu", name))
            limit = float(np.quantile(of.all[:, 1], 0.5))
            goal = Goal({"bleu": "maximize"}, (Limit(name, limit),))
            found = np.array(with_ours(method, of, seed, max(BUDGETS), goal))
            shares.append([float((found[:budget, 1] > limit).mean()) for budget in BUDGETS])
            within, table = found[found[:, 1] <= limit], of.all[of.all[:, 1] <= limit]
            regrets.append(float(within[:, 0].min() - table[:, 0].min()))
        cells = " | ".join(with_interval(column) for column in np.array(shares).T)
        lines.append(f"| {method} | {cells} | {with_interval(np.array(regrets))} |")
    return "\n".join(lines)


class _Workers:
    """Simulated workers that train what a table has; `wait` moves the time to the end of the task that ends next."""

    runs_here = True
    gpus = Gpus()

    def __init__(self, workers: int, of: Case, times: Times, until: float) -> None:
        self.slots, self.now = workers, 0.0
        self.found: list[tuple[float, ...]] = []
        self._of, self._times, self._until = of, times, until
        self._trials: dict[int, Trial] = {}
        self._running: list[tuple[float, int, Task]] = []

    def tasks_of(self, trial: Trial) -> list[Task]:
        self._trials[trial.number] = trial
        return [Task(trial.number, 0, Payload("", {}, self._of.goal.metric))]

    def submit(self, task: Task) -> None:
        ends = self.now + self._times.seconds(self._trials[task.trial].key)
        heapq.heappush(self._running, (ends, task.trial, task))

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:  # noqa: ARG002 -- the protocol's
        ends, number, task = heapq.heappop(self._running)
        if ends > self._until:
            raise Enough
        self.now = ends
        losses = self._of.losses_of(self._trials[number].point)
        self.found.append(losses)
        return [TaskReport(task, outcome=Outcome(self._of.goal.scores(losses), seconds=1.0))]

    def close(self) -> None:
        """Nothing runs."""


def by_workers(searches: int) -> str:
    """Return the regrets at the wall time in which the workers could do 30, 60 and 100 trials' work, by the clock.

    Lanes: one and a half times the workers; durations log-normal (sigma 0.6), of which cost predicts all but 0.15.
    """
    lines = [conditions(), "", "| method | workers | order | at 30 | at 60 | at 100 |", "| --- " * 6 + "|"]
    for method, workers, order in itertools.product(("random", *OURS), (8, 32), ("clock", "free")):
        regrets = []
        for (task, metrics), seed in itertools.product(CASES[:1] + CASES[3:4], range(searches)):
            of = case(task, metrics)
            row = []
            for budget in BUDGETS:
                times = Times(seed, 0.6, 0.15)
                pool = _Workers(workers, of, times, until=budget * times.mean / workers)
                settings = yaml.safe_load((CONF / f"{method}.yaml").read_text())
                strategy: Any = make_strategy(settings, space_of(of.name), seed)
                rules = Rules(
                    strategy=strategy,
                    tasks_of=pool.tasks_of,
                    cost_of=lambda trial, times=times: times.cost(trial.key),
                    lanes=workers * 3 // 2,
                    order=order,  # type: ignore[arg-type]
                )
                with contextlib.suppress(Enough):
                    search(rules, memory_record(of.goal, TaskLayout()), pool, 10 * budget)
                row.append(of.regret(pool.found) if pool.found else 1.0)
            regrets.append(row)
        cells = " | ".join(with_interval(column) for column in np.array(regrets).T)
        lines.append(f"| {method} | {workers} | {order} | {cells} |")
    return "\n".join(lines)


def milliseconds(trials: int = 10_000, asked: int = 50) -> str:
    """Return the milliseconds of a proposal after so many trials, in six ranges, fastest of five turns."""
    space = space_from_dict({f"x{place}": {"low": 1e-5, "high": 1.0, "log": place < 3} for place in range(6)})
    lines = [conditions(), "", f"| strategy | metrics | ms a proposal after {trials:,} trials |", "| --- | --- | --- |"]
    for name, count in itertools.product(OURS, (1, 2, 3)):
        goal = Goal({f"m{place}": "minimize" for place in range(count)})
        rng = np.random.default_rng(0)

        def ended(number: int, point: Mapping[str, Any], goal: Goal = goal) -> Trial:
            x = np.array(list(point.values()))
            values = {metric: float(((x - place / 3) ** 2).sum()) for place, metric in enumerate(goal.metrics)}
            return finished(Trial(number, number, point), {0: Outcome(values)}, goal)

        first = History(ended(number, space.draw(rng)) for number in range(trials))
        settings = yaml.safe_load((CONF / f"{name}.yaml").read_text())
        fastest = np.inf
        for _ in range(5):
            strategy: Any = make_strategy(settings, space, 0)
            known, spent = History(first), 0.0
            strategy.propose(known, ())
            for _ in range(asked):
                start = time.process_time()
                (proposed,) = strategy.propose(known, ())
                spent += time.process_time() - start
                point = proposed.point if isinstance(proposed, Proposal) else proposed
                known = known.extended([ended(len(known), point)])
            fastest = min(fastest, 1000 * spent / asked)
        lines.append(f"| {name} | {count} | {fastest:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is asked for, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=["regret", "limits", "workers", "proposals"], default="regret")
    parser.add_argument("--results", type=Path, help="with regret: CSV file that collects the finished searches")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="default: all")
    parser.add_argument("--searches", type=int, default=30, help="searches a method and case; default 30")
    parser.add_argument("--jobs", type=int, default=1, help="processes; default 1")
    given = parser.parse_args()
    if given.part == "limits":
        print(over_limits(given.searches))
    elif given.part == "workers":
        print(by_workers(given.searches))
    elif given.part == "proposals":
        print(milliseconds())
    elif given.results is None:
        parser.error("--results: is missing")
    else:
        run_missing(given.results, given.methods, given.searches, given.jobs)
        print(summary(read(given.results)))


if __name__ == "__main__":
    main()
