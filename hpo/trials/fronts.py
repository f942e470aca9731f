"""Ranks trials with several metrics by Pareto fronts, and within a front by the hypervolume that each trial adds.

In this module, losses are arrays of shape (trials, metrics), and lower is better. The algorithms come from moocore
(Lopez-Ibanez, Stützle & Paquete 2010, "Graphical tools for the analysis of bi-objective optimization algorithms").
"""

import bisect
import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# The reference point of hypervolumes, for losses scaled to 0..1. It is worse than the worst loss, so that the ends of a
# front also add hypervolume (Ishibuchi et al. 2018, "How to specify a reference point in hypervolume calculation for
# fair performance comparison").
REFERENCE = 1.1
# The quantile of the losses that `weighted` scales to 1. From 0.5 to 1, the quality of shifting-window search differs
# by less than noise.
_WORST = 0.75
# With _MANY metrics or more, the time of `contributions` grows with the cube of a front's size. If only the best
# members of a front are needed, the front is first split into parts of _PART members.
_MANY, _PART = 4, 160


def front_numbers(losses: Array) -> NDArray[np.int64]:
    """Return the number of each trial's front.

    Front n has the trials that no trial dominates if the trials of fronts 0 to n - 1 are removed. Trials with equal
    losses are on the same front. With two metrics, the function takes O(n log n) time.

    Source: nondominated sorting of Deb et al. 2002, "A fast and elitist multiobjective genetic algorithm: NSGA-II".
    """
    import moocore

    numbers: NDArray[np.int64] = np.asarray(moocore.pareto_rank(losses), dtype=np.int64)
    return numbers


def is_on_front(losses: Array) -> NDArray[np.bool]:
    """Return a mask, True for each trial that no other trial dominates; equal trials do not dominate each other."""
    import moocore

    return np.asarray(moocore.is_nondominated(losses, keep_weakly=True), dtype=bool)


def scale_of(losses: Array) -> Array:
    """Return the best and the worst loss of each metric, shape (2, metrics)."""
    return np.stack((losses.min(axis=0), losses.max(axis=0)))


def scaled(losses: Array, scale: Array) -> Array:
    """Return the losses after a linear map of each metric: `scale[0]` becomes 0, and `scale[1]` becomes 1.

    `scale` has shape (2, metrics). For example, its two rows are the best and the worst loss of each metric, as
    `scale_of` returns them. If both rows are equal for a metric, the losses of this metric are only shifted.
    """
    low, high = scale
    units: Array = (losses - low) / np.where(high > low, high - low, 1.0)
    return units


def hypervolume(losses: Array, reference: Array | float = REFERENCE) -> float:
    """Return the volume that the trials dominate up to the reference point; higher is better. Return 0 for no trials.

    Source: Zitzler & Thiele 1998, "Multiobjective optimization using evolutionary algorithms: a comparative case
    study".
    """
    import moocore

    return float(moocore.hypervolume(losses, ref=reference)) if len(losses) else 0.0


def growing(losses: Array) -> Array:
    """Return the hypervolume of the first n trials for every n from 1; the losses must be scaled to 0..1."""
    front, volume = losses[:0], 0.0
    volumes = np.empty(len(losses))
    for place, one in enumerate(losses):
        together = np.vstack((front, one))
        members = is_on_front(together)
        # A trial that equals a member of the front adds nothing.
        if members[-1] and not (front == one).all(axis=1).any():
            front = together[members]
            volume = max(volume, hypervolume(front))
        volumes[place] = volume
    return volumes


def contributions(front: Array, scale: Array) -> Array:
    """Return the hypervolume that each trial adds to its front; no two trials may be equal.

    The losses are first scaled by `scale` (see `scaled`). With two metrics, the ratios between the results do
    not depend on `scale`, except for the two trials at the ends of the front.
    """
    import moocore

    added: Array = moocore.hv_contributions(scaled(front, scale), ref=REFERENCE)
    return added


def _largest_contributions(front: Array, scale: Array, count: int) -> Array:
    """Return the hypervolume that each trial adds (see `contributions`), exact only for the `count` largest values.

    The other values are upper bounds, each smaller than the `count` largest values. With four or more metrics, the time
    for exact values of all trials grows with the cube of their number (four metrics, 1,000 trials: 1.4 s).

    A trial's bound is the hypervolume that the trial adds to a part of the front. To the whole front, the trial adds at
    most this hypervolume.

    The exact value is the volume that the trial dominates, minus the part of this volume that other trials dominate.
    """
    units = scaled(front, scale)
    parts = np.array_split(front, math.ceil(len(front) / _PART))
    added = np.concatenate([contributions(part, scale) for part in parts])
    known: list[float] = []
    for place in np.argsort(-added, kind="stable"):
        if len(known) >= count and added[place] < known[-count]:
            break
        others = np.maximum(units, units[place])
        others[place] = REFERENCE  # so that the member itself dominates nothing
        added[place] = np.prod(REFERENCE - units[place]) - hypervolume(others[is_on_front(others)])
        bisect.insort(known, float(added[place]))
    return added


def best_first(losses: Array, count: int | None = None, scale: Array | None = None) -> NDArray[np.int64]:
    """Return the indices of the `count` best trials (None = all), the best first; ties go to the earlier trial.

    The order is by front, and within a front by the hypervolume that each trial adds, in descending order. Trials with
    equal losses count as one trial, and tie. Losses are scaled by `scale`, see `scaled`; None = `scale_of(losses)`.

    Source: Beume, Naujoks & Emmerich 2007, "SMS-EMOA: Multiobjective selection based on dominated hypervolume".
    """
    if not len(losses):
        return np.empty(0, dtype=np.int64)
    different, place = np.unique(losses, axis=0, return_inverse=True)
    keys = _keys(different, scale_of(losses) if scale is None else scale, count, count)[place.ravel()]
    order: NDArray[np.int64] = np.lexsort((-keys[:, 1], keys[:, 0]))[:count]
    return order


def as_one_loss(losses: Array) -> Array:
    """Return one loss per trial: its position in the order of `best_first`; equal trials have the same loss.

    If a front is entirely in the worse half of the trials, all trials of the front have the same loss. Ranking these
    trials by hypervolume would take too long.
    """
    different, place = np.unique(losses, axis=0, return_inverse=True)
    numbers, added = _keys(different, scale_of(losses), (len(different) + 1) // 2).T
    ordered = np.lexsort((-added, numbers))
    rises = np.diff(numbers[ordered]) + np.abs(np.diff(added[ordered])) > 0
    places = np.empty(len(different))
    places[ordered] = np.concatenate(([0], np.cumsum(rises)))
    one: Array = places[place.ravel()]
    return one


def _keys(losses: Array, scale: Array, count: int | None = None, exact: int | None = None) -> Array:
    """Return an array of shape (trials, 2): each trial's front number, and the hypervolume that the trial adds.

    No two trials may be equal. The best trials are the first ones in the order of `best_first`.

    Args:
        losses: the losses of the trials.
        scale: see `scaled`.
        count: the number of best trials that need hypervolumes; None = all trials need them. If none of the `count`
            best trials is on a front, all trials of this front get the hypervolume 0.
        exact: the number of best trials that need exact hypervolumes; None = all trials need them. The hypervolumes of
            the other trials may be upper bounds.
    """
    numbers = front_numbers(losses)
    keys: Array = np.stack((numbers.astype(float), np.zeros(len(losses))), axis=1)
    sizes = np.bincount(numbers).cumsum()
    for number, begins in enumerate([0, *sizes[:-1]]):
        if count is not None and begins >= count:
            break
        members = np.flatnonzero(numbers == number)
        if exact is None or losses.shape[1] < _MANY or len(members) <= _PART:
            keys[members, 1] = contributions(losses[members], scale)
        else:
            keys[members, 1] = _largest_contributions(losses[members], scale, exact - int(begins))
    return keys


def weighted(losses: Array, weights: Array) -> Array:
    """Return one loss per trial: the augmented Tchebycheff function of its losses.

    Losses are scaled so that the best loss of a metric is 0 and the upper quartile is 1; if both are equal, losses are
    only shifted. With the worst loss in place of the quartile, a diverged trial would make all others look equal.

    Source: Knowles 2006, "ParEGO: A hybrid algorithm with on-line landscape approximation for expensive multiobjective
    optimization problems", equation 2, with rho = 0.05.
    """
    scale = np.stack((losses.min(axis=0), np.quantile(losses, _WORST, axis=0)))
    units = scaled(losses, scale) * weights
    one: Array = np.maximum.reduce(units.T) + 0.05 * np.add.reduce(units.T)
    return one
