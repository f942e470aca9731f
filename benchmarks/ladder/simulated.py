"""The ladder's own numbers on made-up losses: what its plan and its windows are worth where the best stays, and moves.

    python -m benchmarks.ladder.simulated               # half an hour on one core
    python -m benchmarks.ladder.simulated --searches 5  # whether it runs

Five ordered hyperparameters over four scales. The loss of each is flat near its best and steep to one side for the
learning rate, which matters most; noise of a seed has a standard deviation of .01. The best stays where it is (`no`),
that of the rate falls by .43 of its range from the first scale to the target (`rate`, as without a parametrization), or
those of two others move by .3 (`others`). Costs grow as those of a small Transformer by our count (`flat`: 1 to 5.3),
or by 4 with each scale (`steep`). Regret: the loss without noise of the best found at the target, less that of the
optimum there; cost is counted in trainings at the target.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions, markdown
from benchmarks.shared.workers import Times, Workers, run
from hpo.config.goals import SCALE
from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.drawing import expected
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import Point

SPACE = {
    "lr": {"low": 0.0005, "high": 0.064, "log": True},
    "weight_decay": {"low": 0.001, "high": 1.0, "log": True},
    "warmup": {"low": 0.02, "high": 0.4},
    "dropout": [0.0, 0.05, 0.1, 0.2, 0.3],
    "head_scale": [1.0, 2.0, 4.0, 8.0],
}
COSTS = {"flat": (1.0, 1.45, 2.52, 5.28), "steep": (1.0, 4.0, 16.0, 64.0)}
# By how much of the dimension the best moves from the first scale to the target.
MOVES = {"no": {}, "rate": {"lr": -0.43}, "others": {"weight_decay": 0.3, "dropout": -0.3}}
BUDGETS = (8, 12, 20)
NOISE = 0.01


class Losses:
    """The losses of one made-up network, whose best and steepness are drawn by a seed."""

    def __init__(self, seed: int, moves: str, costs: Sequence[float]) -> None:
        rng = np.random.default_rng((seed, 1))
        scales = {"study": {"scale": {"values": list(range(1, len(costs) + 1)), "default": 1}}}
        self.space = space_from_dict(SPACE | scales)
        self._dimensions = [d for d in self.space.dimensions if d.key != SCALE]
        self._noise = np.random.default_rng((seed, 2))
        self._away = np.log2(costs) / np.log2(costs[-1])
        # The rate costs 2 nats a range, the others .02 to .5.
        self._steepness = np.array([2.0, *np.exp(rng.uniform(np.log(0.02), np.log(0.5), len(SPACE) - 1))])
        moved = np.array([MOVES[moves].get(key, 0.0) for key in SPACE])
        self._best = np.where(moved != 0, 0.5 - moved / 2, [0.5, *rng.uniform(0.1, 0.9, len(SPACE) - 1)])
        self._moved = moved

    def clean(self, point: Point) -> float:
        """Return the loss of a point without noise, less that of the optimum at its scale."""
        units = np.array([d.to_unit(point[d.key]) for d in self._dimensions])
        away = units - self._best - self._moved * self._away[int(point[SCALE]) - 1]
        bowl = away**2 / (1 + 2 * np.abs(away))
        bowl[0] *= 2.5 if away[0] > 0 else 1.0
        # Far above its best rate a training diverges.
        return float(self._steepness @ bowl) + (0.8 if away[0] > 0.45 else 0.0)

    def noisy(self, point: Point) -> float:
        """Return the loss as a training would give it; scales differ by .1 nats a doubling."""
        return 3.0 - 0.1 * float(point[SCALE]) + self.clean(point) + NOISE * float(self._noise.normal())


def regrets(seed: int, moves: str, costs: Sequence[float], **settings: Any) -> list[float]:
    """Return the regret of the first trial at the target, and of the best found there at each budget; nan = none."""
    losses = Losses(seed, moves, costs)
    ladder = strategy_settings("ladder") | {"costs": list(costs)} | settings
    ladder["first"] = strategy_settings(ladder["first"])
    found: list[tuple[int, float, float]] = []

    def loss_of(point: Point) -> float:
        found.append((int(point[SCALE]), losses.noisy(point), losses.clean(point)))
        return found[-1][1]

    strategy: Any = make_strategy(ladder, losses.space, seed)
    # As many trials as the largest budget takes at least; what is beyond it is not read.
    most = sum(strategy.counts) + max(BUDGETS)
    times = Times(seed, 0.0, 0.0)
    run(strategy, Workers(1, times.seconds, loss_of), times, 1, most)
    spent = np.cumsum([costs[scale - 1] / costs[-1] for scale, _, _ in found])
    regret = [next(clean for scale, _, clean in found if scale == len(costs))]
    for budget in BUDGETS:
        seen = [
            each[1:] for each, cost in zip(found, spent, strict=True) if each[0] == len(costs) and cost <= budget + 1e-9
        ]
        regret.append(min(seen)[1] if seen else float("nan"))
    return regret


def row(label: str, searches: int, costs: str, **settings: Any) -> list[str]:
    """Return a row: the plan, and the mean regrets where the best stays and moves."""
    cells = [label, costs]
    for moves in MOVES:
        means = np.array([regrets(seed, moves, COSTS[costs], **settings) for seed in range(searches)]).mean(axis=0)
        cells += ["" if np.isnan(mean) else f"{mean:.3f}".lstrip("0") for mean in means]
    return cells


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=40, help="of each kind; default 40")
    searches = parser.parse_args().searches
    published, rows = expected._MOVES, []
    for costs in COSTS:
        rows += [row(f"cost_ratio {ratio:g}", searches, costs, cost_ratio=ratio) for ratio in (1.0, 0.5, 0.25)]
        rows += [
            row(f"first {first}", searches, costs, first=first)
            for first in ("random", "evolutionary", "shifting_window")
        ]
        for moves in (0.05, 0.1, 0.3):
            expected._MOVES = moves
            rows.append(row(f"moves {moves:g}", searches, costs))
        expected._MOVES = published
    ends = ("first", *(f"at {budget}" for budget in BUDGETS))
    print(f"{conditions()}\n")
    print(markdown(["setting", "costs", *(f"{moves}: {end}" for moves in MOVES for end in ends)], rows))


if __name__ == "__main__":
    main()
