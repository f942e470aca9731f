"""How much each hyperparameter contributes to the winner's gain over the default configuration."""

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpo.engine.space.dimensions import Choices, Dimension, Range
from hpo.engine.space.space import Point, Space
from hpo.engine.trials.trial import Trial
from hpo.report.facts.importances import FEWEST, too_few
from hpo.report.facts.optuna_study import ranks_of
from hpo.report.part import Absent

# Fits of the surrogate, each on a sample of the trials with replacement; 2^12 subsets are predicted in a moment.
_FITS, _TREES, _MOST_KEYS = 10, 20, 12
_ABSENT = object()


@dataclass(frozen=True)
class Contribution:
    """Part of a gain, in the units of the metric; above 0 is better, whatever the direction.

    Attributes:
        gain: mean over the fits.
        low, high: of the middle 95 % of the fits.
    """

    gain: float
    low: float
    high: float


def shapley_values(
    space: Space, trials: Sequence[Trial], default: Point | None, winner: Trial | None
) -> dict[str, Contribution] | Absent:
    """Return the Shapley value of each hyperparameter in which winner and default differ, the largest first.

    The value of a set of hyperparameters is the score that a random forest predicts where they have the winner's
    values and the others the default's; so the contributions sum to the predicted gain of the winner.

    Args:
        space: the space that was searched.
        trials: complete trials with comparable scores.
        default: the default configuration; None where it does not lie in the space.
        winner: the study's.

    Source: the ablation game of HyperSHAP, Wever, Muschalik, Fumagalli & Lindauer 2025 (arXiv 2502.01276).
    """
    if len(trials) < FEWEST:
        return too_few(len(trials))
    if default is None or winner is None:
        return Absent("the default configuration lies outside of the space")
    keys = [key for key in space.keys if default.get(key, _ABSENT) != winner.point.get(key, _ABSENT)]
    if not keys:
        return Absent("the winner is the default configuration")
    if len(keys) > _MOST_KEYS:
        return Absent(f"the winner differs from the default in {len(keys)} hyperparameters, more than {_MOST_KEYS}")
    sets = list(itertools.product((False, True), repeat=len(keys)))
    mixed = [_mixed(default, winner.point, set(itertools.compress(keys, members))) for members in sets]
    values = _predicted(space, trials, mixed) @ _weights(sets)
    spread = np.quantile(values, (0.025, 0.975), axis=0)
    found = {
        key: Contribution(float(values[:, at].mean()), float(spread[0, at]), float(spread[1, at]))
        for at, key in enumerate(keys)
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1].gain, item[0])))


def _mixed(default: Point, winner: Point, keys: Collection[str]) -> Point:
    """Return the default with the winner's values, or their absence, of some keys."""
    kept = {key: value for key, value in default.items() if key not in keys}
    return kept | {key: winner[key] for key in keys if key in winner}


def _predicted(space: Space, trials: Sequence[Trial], points: Sequence[Point]) -> Any:
    """Return the negative loss of each point in each fit, shape (fits, points)."""
    from sklearn.ensemble import RandomForestRegressor  # here: it takes a while to load

    known = np.array([_encoded(space, trial.point) for trial in trials])
    losses = np.array([trial.loss for trial in trials])
    asked = np.array([_encoded(space, point) for point in points])
    rng = np.random.default_rng(0)
    gains = []
    for fit in range(_FITS):
        sample = rng.integers(len(trials), size=len(trials))
        forest = RandomForestRegressor(_TREES, random_state=fit).fit(known[sample], losses[sample])
        gains.append(-forest.predict(asked))
    return np.array(gains)


def _weights(sets: Sequence[tuple[bool, ...]]) -> Any:
    """Return the matrix that turns the values of all subsets into Shapley values, shape (subsets, players).

    Source: Shapley 1953, equation (1): a player's mean marginal contribution over all orders.
    """
    players = len(sets[0])
    weights = np.zeros((len(sets), players))
    for row, members in enumerate(sets):
        size = sum(members)
        for player, is_in in enumerate(members):
            before = size - is_in
            share = 1 / (players * math.comb(players - 1, before))
            weights[row, player] = share if is_in else -share
    return weights


def _encoded(space: Space, point: Point) -> list[float]:
    """Return a point as numbers: ordered values by their place from 0 to 1, choices as one of many, -1 if absent."""
    return [number for dimension in space.dimensions for number in _numbers(dimension, point)]


def _numbers(dimension: Dimension, point: Point) -> list[float]:
    there = dimension.key in point
    value = point.get(dimension.key)
    if isinstance(dimension, Range):
        return [dimension.to_unit(value) if isinstance(value, int | float) else -1.0]
    ranks = ranks_of(dimension)
    place = ranks[isinstance(value, bool), value] if there else None
    if isinstance(dimension, Choices):
        return [float(place == rank) for rank in range(len(ranks))]
    return [-1.0 if place is None else place / max(1, len(ranks) - 1)]
