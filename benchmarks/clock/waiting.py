"""What waiting costs: searches on simulated clusters, by the clock, in rounds, in free order, and by Optuna's TPE.

Rows of the measured tables are "trained" on 8, 32 or 128 workers in log-normal durations that nobody knows beforehand,
or (`--sigmas own`) in the seconds that the table has for each.
Two things are counted up to the time in which the workers could have trained 30, 60 and 100 rows: the share of the time
in which they were busy, and the regret of the best row that had finished, (best - optimum) / (median - optimum).

Methods: `clock`, our law, where cost predicts the duration exactly, or is off by a factor of exp(error z), z normal,
with as many lanes as workers, half as many more, or twice as many; `free`, our free order; `rounds`, generations that
are finished before the next, of 8, 16, 32 or as many as there are workers; `tpe`, Optuna's own TPESampler with constant
liar, asked whenever a worker is free (helped as in search_quality/regret.py); `random`, which learns nothing.

Every finished search is a row of the file `--results`, so that a stopped run continues where it stopped.
"""

import argparse
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared.peers import PATIENCE, with_optuna
from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions, markdown
from benchmarks.shared.rows import read
from benchmarks.shared.rows import run as run_searches
from benchmarks.shared.tables import TABLES, Measured, load, ranks_of, space_of
from benchmarks.shared.workers import Times, Workers, run
from hpo.engine.schedule.rules import Order
from hpo.engine.strategies import make_strategy
from hpo.trials.space.space import point_key

BUDGETS = (30, 60, 100)
# Durations as the table has them.
OWN = "own"
# A search that has found nothing in time counts as one that found the median.
_NOTHING = 1.0
FIELDS = ("workers", "sigma", "method", "table", "seed", *(f"regret_{b}" for b in BUDGETS), "busy", "done")

# Settings, order, lanes per worker, error of the prediction.
OURS: dict[str, tuple[str, Order, float, float]] = {
    "clock": ("evolutionary", "clock", 1.0, 0.0),
    "clock, off by 0.15": ("evolutionary", "clock", 1.0, 0.15),
    "clock, off by 0.3": ("evolutionary", "clock", 1.0, 0.3),
    "clock, off by 0.15, 1.5 lanes": ("evolutionary", "clock", 1.5, 0.15),
    "clock, off by 0.3, 1.5 lanes": ("evolutionary", "clock", 1.5, 0.3),
    "clock, off by 0.3, 2 lanes": ("evolutionary", "clock", 2.0, 0.3),
    "clock, shifting windows": ("shifting_window", "clock", 1.0, 0.0),
    "free": ("evolutionary", "free", 1.0, 0.3),
    "random": ("random", "clock", 1.0, 0.3),
}
ROUNDS = {"rounds of 8": 8, "rounds of 16": 16, "rounds of 32": 32, "rounds of 128": 128}
METHODS = (*OURS, *ROUNDS, "tpe")


def searched(workers: int, sigma: str, method: str, name: str, seed: int) -> dict[str, Any]:
    """Run one search and return its row."""
    table = load(name)
    error = OURS[method][3] if method in OURS else 0.3
    times = Times(seed, 0.0, error, own_seconds(table)) if sigma == OWN else Times(seed, float(sigma), error)
    until = max(BUDGETS) * times.mean / workers
    cluster = Workers(workers, times.seconds, lambda point: table.losses[ranks_of(point, table.values)], until)
    if method == "tpe":
        import optuna

        losses = {ranks: (loss,) for ranks, loss in table.losses.items()}
        sampler = optuna.samplers.TPESampler(seed=seed)
        with_optuna(sampler, PATIENCE, table.values, table.unordered, losses, cluster, seed)
    else:
        config, order, per_worker, _ = OURS.get(method, ("evolutionary", "clock", 1.0, 0.3))
        settings = strategy_settings(config)
        size = ROUNDS.get(method)
        if size is not None:
            settings |= {"children": size, "population": max(size, settings["population"])}
        strategy = make_strategy(settings, space_of(name), seed)
        run(strategy, cluster, times, round(per_worker * workers), 5 * max(BUDGETS), order)
    regrets = []
    for budget in BUDGETS:
        end = until * budget / max(BUDGETS)
        best = min((loss for at, loss in cluster.finished if at <= end), default=None)
        regrets.append(_NOTHING if best is None else (best - table.optimum) / table.scale)
    busy = cluster.busy / (until * workers)
    row = [workers, sigma, method, name, seed, *regrets, round(busy, 4), len(cluster.finished)]
    return dict(zip(FIELDS, row, strict=True))


def own_seconds(table: Measured) -> dict[str, float]:
    """Return the table's seconds by the key of the point."""
    return {
        point_key({key: values[rank] for (key, values), rank in zip(table.values.items(), ranks, strict=True)}): seconds
        for ranks, seconds in table.seconds.items()
    }


def run_missing(path: Path, wanted: Sequence[tuple[Any, ...]], jobs: int) -> None:
    """Run every search that is missing in the results."""
    done = {tuple(row[name] for name in FIELDS[:5]) for row in read(path)}
    run_searches(path, FIELDS, searched, (each for each in wanted if tuple(map(str, each)) not in done), jobs)


def report(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the table: means over tables and seeds, that of the last budget with half its 95 % interval."""
    groups: dict[tuple[int, str, str], dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        key = int(row["workers"]), row["sigma"], row["method"]
        groups[key][row["table"]].append([float(row[field]) for field in FIELDS[5:]])
    lines = []
    for workers, sigma, method in sorted(groups, key=lambda key: (key[0], key[1], METHODS.index(key[2]))):
        found = [np.array(table) for table in groups[workers, sigma, method].values()]
        *regrets, busy, done = np.mean([table.mean(axis=0) for table in found], axis=0)
        # The tables are fixed, the searches are the sample.
        variance = sum(table[:, len(BUDGETS) - 1].var(ddof=1) / len(table) for table in found) / len(found) ** 2
        cells = [f"{regret:.3f}".removeprefix("0") for regret in regrets]
        cells[-1] += f" ± {1.96 * np.sqrt(variance):.3f}".replace("0.", ".")
        lines.append([str(workers), sigma, method, *cells, f"{busy:.2f}", f"{done:.0f}"])
    return markdown(["workers", "sigma", "method", *(f"regret at {b}" for b in BUDGETS), "busy", "done"], lines)


def main() -> None:
    """Run what is missing and print the summary of all results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True, help="CSV file that collects the finished searches")
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 32, 128], help="default: 8 32 128")
    parser.add_argument("--sigmas", nargs="+", default=["0.3", "0.6", "1.0", OWN], help="default: 0.3 0.6 1.0 own")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="default: all")
    parser.add_argument("--repeats", type=int, default=12, help="searches a method and table; default 12")
    parser.add_argument("--jobs", type=int, default=1, help="processes; default 1")
    arguments = parser.parse_args()
    wanted = [
        (workers, sigma, method, name, seed)
        for seed, workers, sigma, method, name in itertools.product(
            range(arguments.repeats), arguments.workers, arguments.sigmas, arguments.methods, TABLES
        )
        if sigma != OWN or load(name).seconds
    ]
    run_missing(arguments.results, wanted, arguments.jobs)
    print(conditions() + "\n\n" + report(read(arguments.results)))


if __name__ == "__main__":
    main()
