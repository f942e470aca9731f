"""Estimates how far the best value of a hyperparameter moves from one scale to the next, more expensive one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpo.trials.ranking import leaders
from hpo.trials.space.dimensions import Choices, Dimension
from hpo.trials.trial import Trial

EVEN = 1 / math.sqrt(12)
"""The standard deviation of the uniform distribution from 0 to 1."""

LEAST_SHARE = 0.1
"""The length of the shortest window that a ladder searches, as a share of the dimension's length."""


@dataclass(frozen=True)
class Place:
    """The location of the best trials in an ordered dimension, at one scale.

    Attributes:
        mean: the mean position of the best trials, weighted by their ranks. A position is between 0 and 1 along the
            dimension, on a logarithmic axis if the dimension is logarithmic.
        spread: the standard deviation of the positions of the best trials.
        count: the effective number of trials, given their weights.
    """

    mean: float
    spread: float
    count: float


def ranked_scales(known: Sequence[Sequence[Trial]]) -> dict[int, Sequence[Trial]]:
    """Return the `ranked_points` of each scale that has complete trials, by the index of the scale."""
    ranked = {place: ranked_points(trials) for place, trials in enumerate(known)}
    return {place: trials for place, trials in ranked.items() if trials}


def ranked_points(trials: Sequence[Trial]) -> list[Trial]:
    """Return, for each point, the complete trial that was trained furthest.

    The trials are ordered by amount of training, the largest first; among equal amounts, the best come first.
    """
    furthest = dict[str, Trial]()
    for trial in leaders(trials, len(trials)):
        furthest.setdefault(trial.key, trial)
    return list(furthest.values())


def elite(ranked: Sequence[Trial], share: float, least: int = 1) -> Sequence[Trial]:
    """Return the first trials of a scale's ranking: the given share of all, but at least `least` trials."""
    return ranked[: max(least, math.ceil(share * len(ranked)))]


def place_of(dimension: Dimension, best: Sequence[Trial]) -> Place | None:
    """Return the mean and the spread of the best trials' values in a dimension; None if no trial has the dimension.

    `best` holds these trials, the best first.
    """
    key = dimension.key
    units = np.array([dimension.to_unit(trial.point[key]) for trial in best if key in trial.point])
    if not len(units):
        return None
    weights = math.log(len(units) + 0.5) - np.log(np.arange(1, len(units) + 1))
    weights /= weights.sum()
    mean, count = float(weights @ units), float(1 / (weights**2).sum())
    # Correct the variance for its bias. A single value does not determine the spread, so assume a uniform distribution.
    spread = math.sqrt(float(weights @ (units - mean) ** 2) * count / (count - 1)) if count > 1 else EVEN
    return Place(mean, spread, count)


# A parabola fits only near the best trials. So the fit uses the better _SHARE of the trials of each scale, at least
# _LEAST and at most _MOST. It leaves out diverged trials: those whose distance to the best loss of their scale is more
# than _FAR times the median distance.
_SHARE, _LEAST, _MOST, _FAR = 0.5, 4, 100, 30.0
# The residuals are not independent draws around a parabola, so the F test alone would give intervals that are too
# narrow. This factor multiplies the increase of the sum of squares that the test allows. It was chosen with simulated
# ladders (24 each of 33 and 45 trials, an optimum that moves or stays, three ordered dimensions, losses that no
# parabola fits, and some that diverge): 83 to 100 % of the intervals held the truth; with a factor of 1, 54 to 100 %.
_WIDER = 3.0
# 95 % of a normal distribution are within this many standard deviations of its mean.
_NORMAL = 1.96
# The number of different moves that are tried in each direction. The largest one moves the best value by the whole
# dimension over all scales.
_STEPS = 100
# The move is unknown if its interval allows a move by more than this share of the dimension over all scales.
_UNKNOWN = 0.25


@dataclass(frozen=True)
class Shift:
    """How far a dimension's best value moves with each doubling of cost, with a 95 % interval of this move.

    Moves are shares of the dimension's length, on the logarithmic scale for a dimension with `log`.

    Attributes:
        slope: the move that fits best.
        low, high: the ends of the interval.
        is_known: whether the trials show how the best value moves. This is so in two cases. First, the best value
            moves: the interval excludes 0, and no end of the interval is cut off. `fit_shift` cuts an end off at a
            move by the whole dimension over all scales. Second, the best value hardly moves: even the largest move in
            the interval is small. A move is small if (the move) * (the number of doublings from the smallest scale to
            the largest) is below a quarter of the dimension's length.
    """

    slope: float
    low: float
    high: float
    is_known: bool

    @property
    def error(self) -> float:
        """The standard error of `slope`, computed from the 95 % interval as for a normal distribution."""
        return (self.high - self.low) / (2 * _NORMAL)

    @property
    def moves(self) -> bool:
        """Whether the best value moves with the scale: True if the interval from `low` to `high` excludes 0."""
        return self.low > 0 or self.high < 0


def fit_shift(
    dimension: Dimension, others: Sequence[Dimension], ranked: Sequence[Sequence[Trial]], doublings: Sequence[float]
) -> Shift | None:
    """Return how far the best value of an ordered dimension moves with each doubling of cost, with an interval.

    Return None if there are too few trials, too few scales, or too few different values.

    The losses of the better half of each scale's trials are fitted by least squares. The model has a level for each
    scale, a parabola for each ordered dimension, and a level for each choice of an unordered dimension. The parabola of
    `dimension` moves by the same distance with each doubling of cost. The interval contains the distances that fit
    nearly as well as the best distance (profile likelihood, with the F test).

    Args:
        dimension: the ordered dimension.
        others: the other dimensions of the space; if `dimension` is among them, it is ignored there.
        ranked: the complete trials of each scale, the best first. Trials with less training than the first trial of
            their scale are left out, because their losses are not comparable.
        doublings: the logarithm to base 2 of the cost of a training, for each scale.

    Source: Bates & Watts 1988, "Nonlinear regression analysis and its applications", section 6.1.
    """
    comparable = [[t for t in those if dimension.key in t.point and t.amount == those[0].amount] for those in ranked]
    near = [elite(those, _SHARE, _LEAST)[:_MOST] for those in comparable]
    behind = [trial.loss - those[0].loss for those in near for trial in those[1:]]
    most = _FAR * float(np.median(behind)) if behind else 0.0
    near = [[trial for trial in those if trial.loss - those[0].loss <= most] for those in near]
    trials = [trial for those in near for trial in those]
    scales = [scale for scale, those in enumerate(near) for _ in those]
    away = np.array([doublings[scale] for scale in scales])
    if len(set(away.tolist())) < 2:
        return None
    units = np.array([dimension.to_unit(trial.point[dimension.key]) for trial in trials])
    columns = [[float(scale == one) for one in scales] for scale in sorted(set(scales))]
    columns += [column for other in others if other is not dimension for column in _columns(other, trials)]
    rest = np.array(columns).T
    free = len(trials) - int(np.linalg.matrix_rank(rest)) - 3
    if free < 1 or len(set(units.tolist())) < 3:
        return None
    from scipy import special  # Slow to load, and only ladders need it.

    step = 1 / (_STEPS * float(np.ptp(away)))
    slopes = step * np.arange(-_STEPS, _STEPS + 1)
    squares = _squares(rest, units, away, np.array([trial.loss for trial in trials]), slopes)
    least = float(squares.min())
    # The square of Student's t with `free` degrees of freedom has the F distribution of 1 and `free`.
    near_best = slopes[squares <= least * (1 + _WIDER * float(special.stdtrit(free, 0.975)) ** 2 / free)]
    slope, low, high = float(slopes[squares.argmin()]), float(near_best.min() - step), float(near_best.max() + step)
    allowed = max(-low, high) * float(np.ptp(away))
    is_bounded = near_best.min() > slopes[0] and near_best.max() < slopes[-1]
    moves = low > 0 or high < 0
    return Shift(slope, low, high, bool((moves and is_bounded) or allowed < _UNKNOWN))


def _squares(rest: Any, units: Any, away: Any, losses: Any, slopes: Any) -> Any:
    """Return the residual sum of squares of the model of `fit_shift`, for each slope in `slopes`.

    The arrays have one row per trial. `units` holds the position of the trial's value in the dimension, and `away` the
    logarithm to base 2 of the cost of a training at the trial's scale. `losses` holds the losses that the model fits.
    `rest` holds the columns of the scales' constants and of all other dimensions.

    The model has a parabola in `units - slope * away`. After expansion, the terms with only `away` are constant within
    a scale, so the scales' constants contain them. The model fits the other terms as two columns: `units`, and
    `units ** 2 - 2 * slope * units * away`. If the parabola opens downwards, the model fits a line instead.
    """
    columns = np.column_stack([units, units**2, units * away, losses])
    basis, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    basis = basis[:, sizes > sizes[0] * len(rest) * np.finfo(float).eps]
    columns -= basis @ (basis.T @ columns)
    gram = columns.T @ columns
    turned = gram[1] - 2 * slopes[:, None] * gram[2]
    linear, curved, both = gram[0, 0], turned[:, 1] - 2 * slopes * turned[:, 2], turned[:, 0]
    left = gram[3, 3] - gram[0, 3] ** 2 / linear
    # If the curvature is upwards, it explains a share of the residual that the line leaves.
    bent, slope = curved - both**2 / linear, turned[:, 3] - both * gram[0, 3] / linear
    taken = np.where(slope > 0, slope, 0.0) ** 2 / np.where(bent > 0, bent, np.inf)
    return np.maximum(left - taken, 0.0)


def _columns(dimension: Dimension, trials: Sequence[Trial]) -> list[list[float]]:
    """Return a dimension's columns for the model of `fit_shift`, with one number per trial in each column.

    An ordered dimension has two columns: the positions of the trials' values, and the squares of these positions. A
    dimension of unordered choices has a one-hot column for each choice except the first.
    """
    key = dimension.key
    if isinstance(dimension, Choices):
        return [[float(trial.point.get(key, ...) == value) for trial in trials] for value in dimension.values[1:]]
    places = [dimension.to_unit(trial.point[key]) if key in trial.point else 0.5 for trial in trials]
    return [places, [place**2 for place in places]]
