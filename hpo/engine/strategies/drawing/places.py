"""Where the best values of a dimension lie at several scales, and how they move from one to the next."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpo.trials.history import History
from hpo.trials.space.dimensions import Dimension, Range, Value
from hpo.trials.trial import Trial

EVEN = 1 / math.sqrt(12)
"""The standard deviation of what is spread evenly from 0 to 1."""

LEAST_SHARE = 0.1
"""The shortest window, as a share of a range; no spread is taken to be less."""


@dataclass(frozen=True)
class Place:
    """Where the best values of an ordered dimension lie at one scale.

    Attributes:
        mean: from 0 to 1, in the dimension or its logarithm; of the best trials, weighted by rank.
        spread: their standard deviation.
        count: how many trials with equal weights would say as much.
    """

    mean: float
    spread: float
    count: float


def ranked_scales(known: Sequence[Sequence[Trial]]) -> dict[int, Sequence[Trial]]:
    """Return the complete trials of each scale that has some, the best first, by its place from 0."""
    ranked = {place: History(trials).leaders(len(trials)) for place, trials in enumerate(known)}
    return {place: trials for place, trials in ranked.items() if trials}


def elite(ranked: Sequence[Trial], share: float, least: int = 1) -> Sequence[Trial]:
    """Return the best of a scale's complete trials, which come the best first: this share of them, at least so many."""
    return ranked[: max(least, math.ceil(share * len(ranked)))]


def place_of(dimension: Dimension, best: Sequence[Trial]) -> Place | None:
    """Return where the best values of an ordered dimension lie by these trials, the best first; None = none has it."""
    key = dimension.key
    units = np.array([to_unit(dimension, trial.point[key]) for trial in best if key in trial.point])
    if not len(units):
        return None
    weights = math.log(len(units) + 0.5) - np.log(np.arange(1, len(units) + 1))
    weights /= weights.sum()
    mean, count = float(weights @ units), float(1 / (weights**2).sum())
    # A single value says nothing of the spread, and few say less than they seem to.
    spread = math.sqrt(float(weights @ (units - mean) ** 2) * count / (count - 1)) if count > 1 else EVEN
    return Place(mean, spread, count)


def to_unit(dimension: Dimension, value: Value) -> float:
    """Return the place of a value of an ordered dimension, from 0 to 1."""
    if isinstance(dimension, Range):
        assert isinstance(value, int | float)
        return dimension.to_unit(value)
    return (dimension.values.index(value) + 0.5) / len(dimension.values)


def from_unit(dimension: Dimension, unit: float) -> Value:
    """Return the value at a place, which is moved to the next end where it lies outside."""
    unit = min(max(unit, 0.0), 1.0)
    if isinstance(dimension, Range):
        return dimension.from_unit(unit)
    return dimension.values[min(int(unit * len(dimension.values)), len(dimension.values) - 1)]
