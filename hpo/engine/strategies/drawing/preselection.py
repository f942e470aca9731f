"""Selects candidates by the results of nearby trials."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpo.engine.space.dimensions import Dimension, Range, Value
from hpo.engine.space.space import Point, Space
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Trial

# How fast a trial's weight falls with its distance: one to the next of five ordered values (0.25) divides it by 12, one
# to another choice (1) by 22,000. From 5 to 16 the quality of evolutionary search differs by less than its noise.
_SHARPNESS = 10.0
# Only the latest trials are used: this bounds the time of a proposal in a long study.
_MEMORY = 300
# The rank that a pending trial counts with: the middle, so that few go where others are on their way. From 0.2 to 0.8
# the quality of evolutionary search on 8 and 32 lanes differs by less than its noise.
_PENDING = 0.5


def most_promising(
    space: Space, known: History, pending: Sequence[Trial], candidates: Sequence[Point], count: int
) -> list[Point]:
    """Return the `count` candidates with the lowest expected rank, best first; ties to the earlier candidate.

    The expected rank of a candidate is the mean of the ranks of the known trials (0 = best, failures last, pending ones
    in the middle), weighted by exp(-10 x distance): a trial's distance is the sum over the dimensions of the
    difference of the two values, as a share of the (log) range; 1 for different choices, and where only one of the two
    points has the dimension. Ranks, not losses, so that failures and diverged trials do not dominate.

    Source: Nadaraya-Watson kernel regression (1964) as a cheap surrogate for the pre-selection of offspring (Jin
    2011, "Surrogate-assisted evolutionary computation: recent advances and future challenges", section 3).
    """
    trials = known[-_MEMORY:]
    losses = np.array([trial.loss for trial in trials])
    # The share of better trials: equal losses, and all failures, share a rank.
    ranks = np.searchsorted(np.sort(losses), losses) / len(losses)
    ranks = np.append(ranks, np.full(len(pending), _PENDING))
    points = [trial.point for trial in [*trials, *pending]]
    distances = np.zeros((len(candidates), len(points)))
    for dimension in space.dimensions:
        distances += _distances(dimension, candidates, points)
    # Relative to the nearest trial, so that the weights of a far candidate do not all vanish.
    weights = np.exp(-_SHARPNESS * (distances - distances.min(axis=1, keepdims=True)))
    expected = weights @ ranks / weights.sum(axis=1)
    return [candidates[int(i)] for i in np.argsort(expected, kind="stable")[:count]]


def _distances(dimension: Dimension, left: Sequence[Point], right: Sequence[Point]) -> NDArray[np.float64]:
    """Return the distances of the points in one dimension, 0 to 1: shape (left, right)."""
    a, b = _places(dimension, left)[:, None], _places(dimension, right)[None, :]
    apart = np.abs(a - b) if dimension.ordered else (a != b).astype(float)
    absent_a, absent_b = np.isnan(a), np.isnan(b)
    distances: NDArray[np.float64] = np.where(absent_a | absent_b, (absent_a != absent_b).astype(float), apart)
    return distances


def _places(dimension: Dimension, points: Sequence[Point]) -> NDArray[np.float64]:
    """Return the position of each point's value, 0 to 1 where ordered; NaN where it has none."""
    places: dict[Value, float] = {}
    if not isinstance(dimension, Range):
        places = {value: i / max(len(dimension.values) - 1, 1) for i, value in enumerate(dimension.values)}

    def place(value: Value) -> float:
        if not isinstance(dimension, Range):
            return places[value]
        assert isinstance(value, int | float)
        return dimension.to_unit(value)

    key = dimension.key
    return np.array([place(point[key]) if key in point else np.nan for point in points])
