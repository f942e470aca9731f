"""How much each hyperparameter contributes to the winner's gain over the default configuration."""

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpo.engine.space.dimensions import Choices, Dimension, Range
from hpo.engine.space.space import Point, Space, point_key
from hpo.engine.trials.trial import Trial
from hpo.report.analysis.importances import FEWEST, rank_of, too_few
from hpo.report.part import Absent

# Fits of the surrogate, each to so many trials at most; 2^12 subsets are predicted in a moment.
_FITS, _TREES, _MOST_TRIALS, _MOST_PLAYERS = 20, 20, 1_000, 12


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

    The value of a set of hyperparameters is the score that a surrogate predicts where they have the winner's values and
    the others the default's; so the contributions sum to the winner's gain, as predicted. A hyperparameter that exists
    in one of the two only belongs to the one that its condition names.

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
    players = _players(space, default, winner.point)
    if not players:
        return Absent("the winner is the default configuration")
    if len(players) > _MOST_PLAYERS:
        return Absent(f"the winner differs from it in {len(players)} hyperparameters, more than {_MOST_PLAYERS}")
    sets = list(itertools.product((False, True), repeat=len(players)))
    mixed = []
    for members in sets:
        keys = {key for those in itertools.compress(players.values(), members) for key in those}
        mixed.append(_mixed(default, winner.point, keys))
    ends = {point_key(default), point_key(winner.point)}
    values = _predicted(space, trials, mixed, ends) @ _weights(sets)
    low, high = np.quantile(values, (0.025, 0.975), axis=0)
    parts = zip(values.mean(axis=0), low, high, strict=True)
    found = {key: Contribution(*map(float, part)) for key, part in zip(players, parts, strict=True)}
    return dict(sorted(found.items(), key=lambda item: (-item[1].gain, item[0])))


def _players(space: Space, default: Point, winner: Point) -> dict[str, list[str]]:
    """Return what has its own part of the gain: hyperparameters that differ, with those that exist beside them only."""
    players: dict[str, list[str]] = {}
    belongs: dict[str, str] = {}
    for dimension in space.dimensions:
        key = dimension.key
        before, after = default.get(key, _ABSENT), winner.get(key, _ABSENT)
        if before == after and isinstance(before, bool) == isinstance(after, bool):
            continue
        # Where it exists in one of the two only, what it depends on differs, and stands before it.
        parent = next((belongs[name] for name in dimension.when if name in belongs), None)
        is_alone = parent is None or (before is not _ABSENT and after is not _ABSENT)
        belongs[key] = key if parent is None or is_alone else parent
        players.setdefault(belongs[key], []).append(key)
    return players


def _mixed(default: Point, winner: Point, keys: Collection[str]) -> Point:
    """Return the default with the winner's values, or their absence, of some keys."""
    kept = {key: value for key, value in default.items() if key not in keys}
    return kept | {key: winner[key] for key in keys if key in winner}


def _predicted(space: Space, trials: Sequence[Trial], points: Sequence[Point], always: Collection[str]) -> Any:
    """Return the negative loss of each point in each fit, shape (fits, points).

    A fit has a sample of the trials with replacement, and those at the points `always`, so that it knows both ends of
    the gain. Its trees are extremely randomised and have every trial of the sample: they meet its scores exactly.

    Source: Geurts, Ernst & Wehenkel 2006, "Extremely randomized trees" (Machine Learning 63).
    """
    from sklearn.ensemble import ExtraTreesRegressor  # here: it takes a while to load

    known = np.array([_encoded(space, trial.point) for trial in trials])
    losses = np.array([trial.loss for trial in trials])
    asked = np.array([_encoded(space, point) for point in points])
    kept = np.array([place for place, trial in enumerate(trials) if point_key(trial.point) in always], dtype=int)
    rng = np.random.default_rng(0)
    gains = []
    for fit in range(_FITS):
        sample = np.concatenate([rng.integers(len(trials), size=min(len(trials), _MOST_TRIALS)), kept])
        trees = ExtraTreesRegressor(_TREES, random_state=fit).fit(known[sample], losses[sample])
        gains.append(-trees.predict(asked))
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
    if dimension.key not in point:
        return [0.0] * len(dimension.values) if isinstance(dimension, Choices) else [-1.0]
    value = point[dimension.key]
    if isinstance(dimension, Range):
        assert isinstance(value, int | float)
        return [dimension.to_unit(value)]
    rank, count = rank_of(dimension, value), len(dimension.values)
    return [float(rank == k) for k in range(count)] if isinstance(dimension, Choices) else [rank / max(1, count - 1)]
