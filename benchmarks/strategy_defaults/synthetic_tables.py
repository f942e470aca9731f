"""Synthetic problems on which the defaults of strategies are chosen (one half), and then verified (the other half).

18 problems per half, of the same families, no two alike: grids with absent cells like those of translation systems,
grids with choices like those of small networks, random forests (plateaus), choices alone, long ranges, the
test functions of optimizers (as grids and as continuous ranges), and choices beside continuous ranges.
Losses: lower is better. Everything is drawn from fixed seeds, so that every run has the same problems.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.shared.tables import TABLES, load
from benchmarks.strategy_defaults.benchmark_functions import (
    ackley,
    branin,
    hartmann3,
    hartmann6,
    levy,
    michalewicz,
    rastrigin,
    rosenbrock,
    styblinski,
)
from benchmarks.strategy_defaults.loss_families import Array, Dimensions, Rng, forest, interacting, network
from hpo.trials.space.dimensions import Choices, Range, Values
from hpo.trials.space.space import Point, Space

OF_HALF = {"choosing": 1, "held-out": 2}


@dataclass(frozen=True, eq=False)
class Problem:
    """A problem to search.

    Attributes:
        name: of the problem.
        space: its points.
        loss: of a point; lower is better.
        optimum: the lowest loss there is.
        median: the median loss, whose regret is 1 when normalised.
    """

    name: str
    space: Space
    loss: Callable[[Point], float]
    optimum: float
    median: float


def problems(suite: str) -> list[Problem]:
    """Return the problems of a suite: `shared` (the measured tables), `choosing` or `held-out`."""
    if suite == "shared":
        return [_measured(name) for name in TABLES]
    seeds = partial(_rng, OF_HALF[suite])
    return [*_tables(seeds), *(_first_functions(seeds) if suite == "choosing" else _second_functions(seeds))]


def _rng(half: int, number: int) -> Rng:
    return np.random.default_rng(1000 * half + number)


def _measured(name: str) -> Problem:
    table = load(name)
    kinds = [
        (Choices if key in table.unordered else Values)(key, tuple(range(len(v)))) for key, v in table.values.items()
    ]
    return _of_losses(name, tuple(kinds), table.losses)


def _dimensions(ordered: Sequence[int] = (), choices: Sequence[int] = (), ranges: int = 0) -> Dimensions:
    """Return ranges, then ordered values, then choices, with the given number of values."""
    kinds = [*itertools.repeat(None, ranges), *((Values, k) for k in ordered), *((Choices, k) for k in choices)]
    return tuple(
        Range(f"x{place}", 0.0, 1.0) if kind is None else kind[0](f"x{place}", tuple(range(kind[1])))
        for place, kind in enumerate(kinds)
    )


def _of_losses(name: str, dimensions: Dimensions, losses: Mapping[tuple[int, ...], float]) -> Problem:
    """Return the problem of a table: the loss by the ranks of the values."""
    keys = [d.key for d in dimensions]
    complete = len(losses) == math.prod(len(d.values) for d in dimensions)
    points = None if complete else tuple(dict(zip(keys, ranks, strict=True)) for ranks in losses)
    values = list(losses.values())

    def loss(point: Point) -> float:
        return losses[tuple(point[key] for key in keys)]

    return Problem(name, Space(dimensions, members=points), loss, min(values), float(np.median(values)))


def _table(name: str, dimensions: Dimensions, losses: Callable[..., Array], rng: Rng, absent: float = 0.0) -> Problem:
    """Return a grid with the losses of a family; a share of the cells may be absent."""
    grid = np.meshgrid(*(np.arange(len(d.values)) for d in dimensions), indexing="ij")
    cells = np.array(grid).reshape(len(dimensions), -1).T
    values = losses(cells, dimensions, rng)
    if absent:
        kept = rng.random(len(cells)) > absent
        cells, values = cells[kept], values[kept]
    return _of_losses(name, dimensions, dict(zip(map(tuple, cells.tolist()), values.tolist(), strict=True)))


def _tables(seeds: Callable[[int], Rng]) -> list[Problem]:
    """Return what both halves share except for their seeds."""
    translation = _dimensions([3, 2, 3, 2, 2, 3])
    small = _in_order([2, 2], [4, 3, 3, 6], [2], [6, 6])
    mixed = _dimensions([5, 4, 6, 3, 7], [3, 4])
    noisy, slightly = partial(interacting, noise=0.3), partial(network, noise=0.1)
    heavy = partial(network, noise=0.05, is_heavy=True)
    return [
        *(_table(f"translation {s}", translation, noisy, seeds(s), absent=0.3) for s in (1, 2, 3)),
        *(_table(f"small networks {s}", small, heavy, seeds(s)) for s in (4, 5)),
        *(_table(f"mixed {s}", mixed, slightly, seeds(s)) for s in (6, 7)),
        _table("forest", _dimensions([4, 4, 5, 5, 4, 3], [3]), forest, seeds(8)),
        _table("choices", _dimensions([], [3, 4, 5, 3, 4, 2]), partial(interacting, noise=0.2, cliff=False), seeds(9)),
    ]


def _in_order(*groups: Sequence[int]) -> Dimensions:
    """Return choices and ordered values alternately, beginning with choices."""
    sizes = [((Choices, Values)[turn % 2], size) for turn, group in enumerate(groups) for size in group]
    return tuple(kind(f"x{place}", tuple(range(size))) for place, (kind, size) in enumerate(sizes))


def _first_functions(seeds: Callable[[int], Rng]) -> list[Problem]:
    shift = np.array([0.3, 0.7, 0.2, 0.6])
    return [
        _grid("branin", branin, [31, 31]),
        _grid("hartmann6", hartmann6, [7] * 6),
        _grid("ackley5", ackley(np.array([0.3, 0.7, 0.2, 0.6, 0.45])), [9] * 5),
        _grid("rastrigin4", rastrigin(shift), [11] * 4),
        _grid("rosenbrock3", rosenbrock, [41] * 3),
        _table("long", _dimensions([25, 40, 30]), partial(network, noise=0.05), seeds(10)),
        _continuous("hartmann3 continuous", hartmann3, 3, seeds(11)),
        _continuous("ackley4 continuous", ackley(shift), 4, seeds(12)),
        _mixed_continuous(4, [3, 2], seeds(13)),
    ]


def _second_functions(seeds: Callable[[int], Rng]) -> list[Problem]:
    return [
        _grid("styblinski3", styblinski, [21] * 3),
        _grid("levy5", levy, [7] * 5),
        _grid("michalewicz4", michalewicz, [15] * 4),
        _grid("rosenbrock6", rosenbrock, [5] * 6),
        _grid("hartmann3", hartmann3, [35] * 3),
        _table("long", _dimensions([20, 50, 30, 3]), partial(network, noise=0.15), seeds(10)),
        _continuous("hartmann6 continuous", hartmann6, 6, seeds(11)),
        _continuous("rosenbrock4 continuous", rosenbrock, 4, seeds(12)),
        _mixed_continuous(3, [4, 3], seeds(13)),
    ]


def _grid(name: str, function: Callable[[Array], Array], sizes: Sequence[int]) -> Problem:
    """Return a function of the unit cube on a grid."""

    def losses(cells: Any, _dimensions: Dimensions, _rng: Rng) -> Array:
        return function(cells / (np.array(sizes) - 1))

    return _table(name, _dimensions(sizes), losses, np.random.default_rng(0))


def _continuous(name: str, function: Callable[[Array], Array], width: int, rng: Rng) -> Problem:
    """Return a function of the unit cube itself; its optimum is searched from the best of 200,000 random points."""
    from scipy import optimize

    sample = rng.random((200_000, width))
    losses = function(sample)
    minimize: Any = optimize.minimize  # Its stubs lack Nelder-Mead with options.
    options = {"maxiter": 4000, "xatol": 1e-6, "fatol": 1e-9}
    found = [
        minimize(lambda x: float(function(np.clip(x, 0, 1))), sample[i], method="Nelder-Mead", options=options).fun
        for i in np.argsort(losses)[:20]
    ]
    dimensions = _dimensions(ranges=width)

    def loss(point: Point) -> float:
        return float(function(np.array([point[d.key] for d in dimensions], dtype=float)))

    return Problem(name, Space(dimensions), loss, min(*found, float(losses.min())), float(np.median(losses)))


def _mixed_continuous(width: int, choices: Sequence[int], rng: Rng) -> Problem:
    """Return a quadratic of ranges whose centre and level depend on the combination of choices."""
    combinations = list(itertools.product(*(range(size) for size in choices)))
    centres = rng.random((len(combinations), width)) * 0.5 + rng.random(width) * 0.5
    levels = {combination: rng.gamma(1.0) for combination in combinations}
    weights = rng.gamma(1, 1, size=width) + 0.1
    centre = dict(zip(combinations, centres, strict=True))
    dimensions = _dimensions(choices=choices, ranges=width)

    def of_parts(values: Any, combination: Any) -> float:
        return float(levels[combination] + 4 * (weights * (np.array(values) - centre[combination]) ** 2).sum())

    def loss(point: Point) -> float:
        values = [point[d.key] for d in dimensions]
        return of_parts(values[:width], tuple(values[width:]))

    sample = [of_parts(rng.random(width), combinations[int(rng.integers(len(combinations)))]) for _ in range(20_000)]
    return Problem("choices and ranges", Space(dimensions), loss, min(levels.values()), float(np.median(sample)))
