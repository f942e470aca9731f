"""Tables with several metrics on which searches for fronts are compared, and the methods that search them."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import optuna
import pandas as pd

from benchmarks.shared.peers import GP_PATIENCE, PATIENCE, one_by_one
from benchmarks.shared.places import strategy_settings
from benchmarks.shared.tables import DATA, NMT_TASKS, Ranks, load, ranks_of, space_of_rows
from hpo.engine.strategies import make_strategy
from hpo.trials.fronts import Array, hypervolume, scale_of, scaled
from hpo.trials.goal import Goal, finished
from hpo.trials.history import History
from hpo.trials.trial import Direction, Outcome, Trial

BUDGETS = (30, 60, 100)  # trials at which searches are compared
COLUMNS: dict[str, tuple[str, Direction]] = {
    "bleu": ("dev_bleu", "maximize"),
    "seconds": ("dev_gpu_time_s", "minimize"),
    "parameters": ("num_param", "minimize"),
    "memory": ("gpu_memory_mb", "minimize"),
}
METRICS = (
    ("bleu", "seconds"),
    ("bleu", "parameters"),
    ("bleu", "memory"),
    ("bleu", "seconds", "parameters"),
    ("bleu", "seconds", "memory"),
)
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
        return self.losses[ranks_of(point, self.values)]


@cache
def case(task: str, metrics: tuple[str, ...]) -> Case:
    """Return a translation task by some of its columns, of those rows where each was measured (memory is 0 in one)."""
    rows = pd.read_csv(DATA / "nmt_hpo.csv")
    rows = rows[(rows["task"] == task) & (rows[[COLUMNS[name][0] for name in metrics]] > 0).all(axis=1)]
    goal = Goal({name: COLUMNS[name][1] for name in metrics})
    values = load(task).values
    losses = {}
    for record in rows.to_dict("records"):
        losses[ranks_of(record, values)] = goal.losses({name: float(record[COLUMNS[name][0]]) for name in metrics})
    return Case(task, goal, values, losses)


def with_ours(name: str, of: Case, seed: int, trials: int, goal: Goal | None = None) -> list[tuple[float, ...]]:
    """Return the losses of one search by a strategy of ours, one trial after the other."""
    goal = goal or of.goal
    settings = strategy_settings(name)
    strategy: Any = make_strategy(settings, space_of_rows(of.values, list(of.losses)), seed)
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
    """Return the losses of one sequential search by a sampler of Optuna's, helped as search_quality/regret.py does."""
    return one_by_one(sampler(seed), patience, of.values, (), of.losses, seed, trials, len(of.goal.metrics))


def within_limit(of: Case, limit: float, seed: int, trials: int) -> list[tuple[float, ...]]:
    """Return the losses of one search by Optuna's TPE for the first metric, with a limit of the second."""
    sampler = optuna.samplers.TPESampler(seed=seed)
    return one_by_one(sampler, GP_PATIENCE, of.values, (), of.losses, seed, trials, limit=limit)


# Samplers of Optuna's by their seed, and their patience.
SAMPLERS: dict[str, tuple[Callable[[int], Any], int]] = {
    "Optuna NSGAIISampler": (lambda seed: optuna.samplers.NSGAIISampler(seed=seed, population_size=20), PATIENCE),
    "Optuna TPESampler": (lambda seed: optuna.samplers.TPESampler(seed=seed), GP_PATIENCE),
    "Optuna GPSampler": (lambda seed: optuna.samplers.GPSampler(seed=seed), GP_PATIENCE),
}
OURS, PEERS = ("evolutionary", "shifting_window"), tuple(SAMPLERS)
METHODS: dict[str, Callable[[Case, int, int], list[tuple[float, ...]]]] = {
    **{name: partial(with_ours, name) for name in ("random", *OURS)},
    **{name: partial(with_optuna, *sampler) for name, sampler in SAMPLERS.items()},
}
