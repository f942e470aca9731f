"""What failures teach: searches of tables of which a part cannot be trained.

On the measured tables (../shared/data/tables) 20, 40 or 60 % of the rows fail: those beyond a plane through the
coordinates of the hyperparameters, as configurations do that need too much memory or diverge. The plane is drawn for
every search, which has 4 lanes and 100 trials, or half as many as there are rows that can be trained: four of the
tables are small, and with all good rows tried only bad ones are left. Counted are the share of trials that were wasted
on such rows, and the regret of the best of the others, (best - optimum of the others) / (median of the others - their
optimum). Lower is better for both.

Every finished search is a row of the file `--results`, so that a stopped run continues where it stopped.
"""

import argparse
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions, markdown
from benchmarks.shared.rows import read
from benchmarks.shared.rows import run as run_searches
from benchmarks.shared.tables import TABLES, Measured, Ranks, load, ranks_of, space_of
from benchmarks.shared.workers import Times, Workers, run
from hpo.engine.strategies import make_strategy

SHARES = (0.2, 0.4, 0.6)
METHODS = ("random", "evolutionary", "shifting_window", "tpe", "gp")
MOST_TRIALS, LANES = 100, 4
FIELDS = ("share", "method", "table", "seed", "wasted", "regret")


def feasible(table: Measured, share: float, seed: int) -> Mapping[Ranks, float]:
    """Return the losses of the rows that can be trained: all but a share, beyond a plane of random direction."""
    places = np.array(list(table.losses)) / np.array([max(len(v) - 1, 1) for v in table.values.values()])
    heights = places @ np.random.default_rng(seed).normal(size=places.shape[1])
    limit = np.quantile(heights, 1 - share)
    return {ranks: loss for (ranks, loss), height in zip(table.losses.items(), heights, strict=True) if height <= limit}


def searched(share: float, method: str, name: str, seed: int) -> dict[str, Any]:
    """Run one search and return its row."""
    table = load(name)
    left = feasible(table, share, seed)
    settings = strategy_settings(method)
    times = Times(seed, 0.6, 0.0)
    workers = Workers(1, times.seconds, lambda point: left.get(ranks_of(point, table.values)))
    strategy: Any = make_strategy(settings, space_of(name), seed)
    trials = run(strategy, workers, times, LANES, min(MOST_TRIALS, len(left) // 2)).trials()
    optimum, median = min(left.values()), float(np.median(list(left.values())))
    best = min(median, *(trial.loss for trial in trials))
    wasted = sum(trial.state == "failed" for trial in trials) / len(trials)
    row = [share, method, name, seed, wasted, (best - optimum) / (median - optimum)]
    return dict(zip(FIELDS, row, strict=True))


def run_missing(path: Path, methods: Sequence[str], repeats: int, jobs: int) -> None:
    """Run every search that is missing in the results."""
    done = {tuple(row[name] for name in FIELDS[:4]) for row in read(path)}
    wanted = ((*key, seed) for seed, *key in itertools.product(range(repeats), SHARES, methods, TABLES))
    run_searches(path, FIELDS, searched, (each for each in wanted if tuple(map(str, each)) not in done), jobs)


def report(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the table: means over tables and seeds."""
    groups: dict[tuple[float, str], list[list[float]]] = defaultdict(list)
    for row in rows:
        groups[float(row["share"]), row["method"]].append([float(row[field]) for field in FIELDS[4:]])
    lines = []
    for share, method in sorted(groups, key=lambda key: (key[0], METHODS.index(key[1]))):
        wasted, regret = np.mean(groups[share, method], axis=0)
        lines.append([f"{share:.0%}", method, f"{wasted:.1%}", f"{regret:.3f}".removeprefix("0")])
    return markdown(["cannot be trained", "method", "wasted", "regret"], lines)


def main() -> None:
    """Run what is missing and print the summary of all results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True, help="CSV file that collects the finished searches")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="default: all")
    parser.add_argument("--repeats", type=int, default=12, help="searches a method and table; default 12")
    parser.add_argument("--jobs", type=int, default=1, help="processes; default 1")
    arguments = parser.parse_args()
    run_missing(arguments.results, arguments.methods, arguments.repeats, arguments.jobs)
    print(conditions() + "\n\n" + report(read(arguments.results)))


if __name__ == "__main__":
    main()
