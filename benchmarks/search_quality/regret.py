"""Quality of search: how far from the optimum of measured tables each method is after 10, 30 and 100 trials.

The tables are those of ../shared/data/tables: four grids of Transformer translation systems (six ordered
hyperparameters, BLEU to be maximised, some cells absent) and one of 62,208 feed-forward networks (nine
hyperparameters, three of them unordered; the mean error of four seeds to be minimised). Regret is normalised per table,
(best found - optimum) / (median of the table - optimum), and averaged over the tables; lower is better.

Ours search the rows that exist: absent cells are a constraint of the space. Optuna's samplers do not support this
constraint and repeat points, so they are helped: they are asked and told one trial at a time, in a study of
rank-encoded integers (ordered) and categories (unordered); a repeated point is told its known value and not
counted; an absent cell is told the worst value seen so far (failed, while there is none) and not counted; after 20
uncounted asks in a row (5 for the Gaussian process) a row drawn at random from the untried ones is told and counted.
A search stops early once it has found the optimum; from then on its regret is 0.

Every finished search is a row of the file `--results`, so that a stopped run continues where it stopped. See README.md
beside this file.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.search_quality.report import BUDGETS, report
from benchmarks.shared.peers import GP_PATIENCE, PATIENCE, one_by_one
from benchmarks.shared.places import strategy_settings
from benchmarks.shared.rows import read, run
from benchmarks.shared.tables import TABLES, Measured, load, ranks_of, space_of

Search = Callable[[Measured, int, int], list[float]]


def with_optuna(sampler: Callable[[int], Any], patience: int, table: Measured, seed: int, trials: int) -> list[float]:
    """Return the losses of one sequential search by a sampler of Optuna's, helped as the file's head says."""
    losses = {ranks: (loss,) for ranks, loss in table.losses.items()}
    found = one_by_one(
        sampler(seed), patience, table.values, table.unordered, losses, seed, trials, optimum=(table.optimum,)
    )
    return [loss for (loss,) in found]


def with_ours(config: str, overrides: Mapping[str, Any], table: Measured, seed: int, trials: int) -> list[float]:
    """Return the losses of one search by a strategy of ours on one lane; see `ours`."""
    from benchmarks.shared.workers import losses
    from hpo.engine.strategies import make_strategy

    settings = strategy_settings(config) | overrides
    strategy: Any = make_strategy(settings, space_of(table.name), seed)
    return losses(strategy, lambda point: table.losses[ranks_of(point, table.values)], trials, optimum=table.optimum)


def ours(config: str, **overrides: Any) -> Search:
    """Return the search by a strategy of ours, with the settings of a file in conf/strategy except for these."""
    return partial(with_ours, config, overrides)


def optuna_search(name: str, patience: int = PATIENCE, **settings: Any) -> Search:
    """Return the search by one of Optuna's samplers, with its defaults except for the settings."""

    def sampler(seed: int) -> Any:
        import optuna

        return getattr(optuna.samplers, name)(seed=seed, **settings)

    return partial(with_optuna, sampler, patience)


METHODS: dict[str, tuple[str, Search]] = {
    "random": ("random", ours("random")),
    "grid": ("grid", ours("grid", max_points=100_000)),
    "shifting_window": ("shifting_window", ours("shifting_window")),
    "shifting_window_literal": ("shifting_window, lecture", ours("shifting_window_literal")),
    "evolutionary": ("evolutionary", ours("evolutionary")),
    "evolutionary_plain": ("evolutionary, plain", ours("evolutionary_plain")),
    "tpe": ("tpe: Optuna's, as a strategy of ours", ours("tpe")),
    "gp": ("gp: Optuna's, as a strategy of ours", ours("gp")),
    "cma_es": ("cma_es: Optuna's, in generations", ours("cma_es")),
    "qmc": ("qmc: Optuna's, in rounds of 64", ours("qmc")),
    "optuna_random": ("Optuna RandomSampler", optuna_search("RandomSampler")),
    "optuna_tpe": ("Optuna TPESampler", optuna_search("TPESampler")),
    "optuna_gp": ("Optuna GPSampler", optuna_search("GPSampler", GP_PATIENCE)),
    "optuna_cma_es": ("Optuna CmaEsSampler", optuna_search("CmaEsSampler", warn_independent_sampling=False)),
}
FIELDS = ("method", "table", "seed", *(f"regret_{budget}" for budget in BUDGETS), "trials", "seconds")


def run_search(method: str, name: str, seed: int) -> dict[str, Any]:
    """Run one search and return its row of the results, regrets in the metric's unit."""
    table = load(name)
    start = time.process_time()
    losses = METHODS[method][1](table, seed, max(BUDGETS))
    seconds = time.process_time() - start
    best = [min(losses[:budget]) - table.optimum for budget in BUDGETS]
    row = [method, name, seed, *best, len(losses), round(seconds, 3)]
    return dict(zip(FIELDS, row, strict=True))


def run_missing(path: Path, methods: Sequence[str], repeats: int, jobs: int) -> None:
    """Run every search that is missing in the results: all methods and tables of one seed before the next seed."""
    done = {(row["method"], row["table"], int(row["seed"])) for row in read(path)}
    wanted = ((method, name, seed) for seed in range(repeats) for method in methods for name in TABLES)
    run(path, FIELDS, run_search, (search for search in wanted if search not in done), jobs)


def main() -> None:
    """Run what is missing and print the summary of all results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True, help="CSV file that collects the finished searches")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="default: all")
    parser.add_argument("--repeats", type=int, default=100, help="searches a method and table; default 100")
    parser.add_argument("--jobs", type=int, default=1, help="processes; default 1")
    arguments = parser.parse_args()
    run_missing(arguments.results, arguments.methods, arguments.repeats, arguments.jobs)
    print(report(read(arguments.results), {method: label for method, (label, _) in METHODS.items()}))


if __name__ == "__main__":
    main()
