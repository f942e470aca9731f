"""Quality of search: how far from the optimum of measured tables each method is after 10, 30 and 100 trials.

The tables are those of ../shared/data/tables: four grids of Transformer translation systems (six ordered
hyperparameters, BLEU to be maximised, some cells absent) and one of 62,208 feed-forward networks (nine
hyperparameters, three of them unordered; the mean error of four seeds to be minimised). Regret is normalised a table,
(best found - optimum) / (median of the table - optimum), and averaged over the tables; lower is better.

Ours search the rows that exist: absent cells are a constraint of the space. Optuna's samplers know no constraint
of that kind and repeat points, so they are helped: they are asked and told one trial at a time, in a study of
rank-encoded integers (ordered) and categories (unordered); a repeated point is told its known value and not
counted; an absent cell is told the worst value seen so far (failed, while none is) and not counted; after 20 uncounted
asks in a row a row drawn at random from the untried ones is told and counted. A search stops early once it has found the
optimum, from where on its regret is 0.

Every finished search is a row of the file `--results`, so that a stopped run goes on where it was. See README.md
beside this file.
"""

import argparse
import csv
import itertools
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

DATA = Path(__file__).parents[1].parent / "shared" / "data" / "tables"
CONF = Path(__file__).parents[1] / "conf" / "strategy"
BUDGETS = (10, 30, 100)
PATIENCE = 20
NMT_KEYS = ("bpe_symbols", "num_layers", "num_embed", "ff_num_hidden", "attention_heads", "initial_learning_rate")
NMT_TASKS = ("zh-en", "ru-en", "ja-en", "en-ja")
PROTEIN_SEEDS = ("seed0", "seed1", "seed2", "seed3")

Ranks = tuple[int, ...]
Search = Callable[["Measured", int, int], list[float]]


@dataclass(frozen=True, eq=False)
class Measured:
    """A table of measured configurations.

    Attributes:
        name: of the table.
        values: for every hyperparameter its different values, numbers in ascending order.
        unordered: the hyperparameters whose values are texts.
        losses: by the ranks of its values, the loss of every row; lower is better, in the unit of the metric.
    """

    name: str
    values: Mapping[str, tuple[Any, ...]]
    unordered: frozenset[str]
    losses: Mapping[Ranks, float]

    @property
    def optimum(self) -> float:
        """The lowest loss."""
        return min(self.losses.values())

    @property
    def scale(self) -> float:
        """The regret of the table's median, which is 1 when normalised."""
        return float(np.median(list(self.losses.values()))) - self.optimum


def measured(name: str, rows: pd.DataFrame, keys: Sequence[str], loss: "pd.Series[float]") -> Measured:
    """Return a table from its rows, the hyperparameters among its columns, and its losses."""
    values = {key: tuple(sorted(rows[key].unique().tolist())) for key in keys}
    ranks = zip(*([values[key].index(value) for value in rows[key].tolist()] for key in keys), strict=True)
    texts = frozenset(key for key in keys if isinstance(values[key][0], str))
    return Measured(name, values, texts, dict(zip(ranks, loss.tolist(), strict=True)))


@cache
def load(name: str) -> Measured:
    """Return one of the tables by its name."""
    if name == "protein":
        rows = pd.read_csv(DATA / "hpolib_protein_structure.csv.gz")
        keys = [key for key in rows.columns if key not in PROTEIN_SEEDS]
        return measured(name, rows, keys, rows[list(PROTEIN_SEEDS)].mean(axis=1))
    rows = pd.read_csv(DATA / "nmt_hpo.csv")
    rows = rows[rows["task"] == name]
    return measured(name, rows, NMT_KEYS, -rows["dev_bleu"])


def expected_regret(table: Measured, trials: int) -> float:
    """Return the exact expectation of the regret of drawing rows at random without replacement.

    With n rows in ascending order of loss, the best of k is row i with probability C(n - i, k - 1) / C(n, k).
    """
    losses = np.sort(list(table.losses.values())) - table.optimum
    n, k = len(losses), min(trials, len(losses))
    # P(best is row i or worse) falls from 1 by the factor (n - i - k + 1) / (n - i + 1) from row to row.
    factors = np.clip((n - np.arange(1, n) - k + 1) / (n - np.arange(1, n) + 1), 0, 1)
    at_least = np.concatenate([[1.0], np.cumprod(factors), [0.0]])
    return float(((at_least[:-1] - at_least[1:]) * losses).sum())


def with_optuna(sampler: Callable[[int], Any], table: Measured, seed: int, trials: int) -> list[float]:
    """Return the losses of one sequential search by a sampler of Optuna's, helped as the file's head says."""
    import optuna
    import torch

    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")  # Experimental samplers, categories that CMA-ES draws at random.
    space = {
        key: optuna.distributions.CategoricalDistribution(range(len(values)))
        if key in table.unordered
        else optuna.distributions.IntDistribution(0, len(values) - 1)
        for key, values in table.values.items()
    }
    study = optuna.create_study(sampler=sampler(seed))
    rng = np.random.default_rng(seed)
    found: dict[Ranks, float] = {}
    uncounted = 0
    while len(found) < trials and table.optimum not in found.values():
        if uncounted == PATIENCE:
            untried = [ranks for ranks in table.losses if ranks not in found]
            ranks = untried[int(rng.integers(len(untried)))]
            point = dict(zip(space, ranks, strict=True))
            loss = table.losses[ranks]
            study.add_trial(optuna.trial.create_trial(params=point, distributions=space, value=loss))
        else:
            trial = study.ask(space)
            ranks = tuple(int(trial.params[key]) for key in space)
            known = table.losses.get(ranks, max(found.values(), default=None))
            study.tell(trial, known, state=optuna.trial.TrialState.FAIL if known is None else None)
        is_new = ranks in table.losses and ranks not in found
        uncounted = 0 if is_new else uncounted + 1
        if is_new:
            found[ranks] = table.losses[ranks]
    return list(found.values())


@cache
def space_of(name: str) -> Any:
    """Return the space whose points are the rows of a table."""
    from hpo.dimensions import Choices, Values
    from hpo.space import Space

    table = load(name)
    dimensions = tuple((Choices if k in table.unordered else Values)(k, v) for k, v in table.values.items())
    if len(table.losses) == math.prod(len(values) for values in table.values.values()):
        return Space(dimensions)
    points = tuple({d.key: d.values[rank] for d, rank in zip(dimensions, ranks, strict=True)} for ranks in table.losses)
    return Space(dimensions, members=points)


def with_ours(config: str, overrides: Mapping[str, Any], table: Measured, seed: int, trials: int) -> list[float]:
    """Return the losses of one search by a strategy of ours; see `ours`."""
    from hpo.history import History
    from hpo.strategies import make_strategy
    from hpo.trials import Trial

    settings = yaml.safe_load((CONF / f"{config}.yaml").read_text()) | overrides
    strategy = make_strategy(settings, space_of(table.name), seed)
    history = History()
    for number in itertools.count():
        points = strategy.next_round(history)[: trials - len(history)]
        finished = []
        for place, point in enumerate(points, start=len(history)):
            loss = table.losses[tuple(values.index(point[key]) for key, values in table.values.items())]
            finished.append(Trial(place, number, point, state="complete", score=loss, loss=loss))
        history = history.extended(finished)
        if not points or len(history) == trials or history.ranked(1)[0].loss == table.optimum:
            break
    return [trial.loss for trial in history]


def ours(config: str, **overrides: Any) -> Search:
    """Return the search by a strategy of ours, with the settings of a file in conf/strategy but for these."""
    return partial(with_ours, config, overrides)


def optuna_search(name: str, **settings: Any) -> Search:
    """Return the search by one of Optuna's samplers, with its defaults."""

    def sampler(seed: int) -> Any:
        import optuna

        return getattr(optuna.samplers, name)(seed=seed, **settings)

    return partial(with_optuna, sampler)


METHODS: dict[str, tuple[str, Search]] = {
    "random": ("random", ours("random")),
    "grid": ("grid", ours("grid", max_points=100_000)),
    "shifting_window": ("shifting_window", ours("shifting_window")),
    "shifting_window_literal": ("shifting_window, lecture", ours("shifting_window_literal")),
    "evolutionary": ("evolutionary", ours("evolutionary")),
    "evolutionary_plain": ("evolutionary, plain", ours("evolutionary_plain")),
    "optuna_random": ("Optuna RandomSampler", optuna_search("RandomSampler")),
    "optuna_tpe": ("Optuna TPESampler", optuna_search("TPESampler")),
    "optuna_gp": ("Optuna GPSampler", optuna_search("GPSampler")),
    "optuna_cma_es": ("Optuna CmaEsSampler", optuna_search("CmaEsSampler", warn_independent_sampling=False)),
}
TABLES = (*NMT_TASKS, "protein")
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
    """Run every search that the results lack, all methods and tables of one seed before the next seed."""
    done = {(row["method"], row["table"], int(row["seed"])) for row in read(path)}
    wanted = ((method, name, seed) for seed in range(repeats) for method in methods for name in TABLES)
    missing = [search for search in wanted if search not in done]
    if not missing:
        return
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file, ProcessPoolExecutor(jobs) as pool:
        writer = csv.DictWriter(file, FIELDS)
        if is_new:
            writer.writeheader()
        for row in pool.map(run_search, *zip(*missing, strict=True)):
            writer.writerow(row)
            file.flush()


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of the results; none where there is no file yet."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True, help="CSV file that collects the finished searches")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="default: all")
    parser.add_argument("--repeats", type=int, default=100, help="searches a method and table; default 100")
    parser.add_argument("--jobs", type=int, default=1, help="processes; default 1")
    arguments = parser.parse_args()
    run_missing(arguments.results, arguments.methods, arguments.repeats, arguments.jobs)


if __name__ == "__main__":
    main()
