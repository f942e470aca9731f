"""Computes how the hypervolume of the Pareto front grows in a search, and how it would grow in a random search.

The random search is simulated with the recorded trials. After n trials, the random search has the mean hypervolume of
random subsets with n recorded trials each.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpo.trials.fronts import Array, growing, hypervolume, scale_of, scaled
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial

# Number of random orders for the estimate of a mean; the standard error of the mean is a fourteenth of the spread.
NUM_ORDERS = 200
_NUM_BUDGETS = 40  # points of a curve, evenly spaced on a logarithmic scale


@dataclass(frozen=True)
class Growth:
    """The growth of the hypervolume of a Pareto front; higher is better.

    Attributes:
        trials: the trials that increased the hypervolume, in the given order.
        volumes: the hypervolume after each of these trials. It uses losses scaled by `scale` to 0 (best) and 1
            (worst), and the reference point `fronts.REFERENCE`.
        scale: the best and the worst loss of each metric among the given trials, shape (2, metrics).
    """

    trials: Sequence[Trial]
    volumes: Sequence[float]
    scale: Array


@dataclass(frozen=True)
class Expectation:
    """Mean and standard deviation of the hypervolume over random searches of n trials, for each n in `budgets`."""

    budgets: Sequence[int]
    means: Sequence[float]
    spreads: Sequence[float]


def growth(trials: Sequence[Trial], goal: Goal) -> Growth:
    """Return the growth of the hypervolume over trials that are complete, comparable and within the limits."""
    losses = np.array([trial.losses for trial in trials]).reshape(-1, len(goal.metrics))
    if not len(losses):
        return Growth((), (), np.zeros((2, len(goal.metrics))))
    scale = scale_of(losses)
    volumes = growing(scaled(losses, scale))
    rises: list[int] = np.flatnonzero(np.diff(volumes, prepend=0.0) > 0).tolist()
    return Growth([trials[place] for place in rises], volumes[rises].tolist(), scale)


def expected_growth(trials: Sequence[Trial], scale: Array) -> Expectation:
    """Return the expected hypervolume of n trials drawn at random without replacement, for each n in `budgets_of`.

    The draws include trials that failed, were stopped, or exceed a limit; such trials add nothing. The result is exact
    if there are at most `NUM_ORDERS` subsets of n trials. Otherwise, `NUM_ORDERS` random orders of all trials (seed 0)
    are drawn; the result is the mean, over these orders, of the hypervolume of each order's first n trials. A closed
    form is known only for one metric.

    Source: Tang et al. 2020 (arXiv 2004.13705), equation 6: the closed form for one metric.
    """
    is_within = [trial.keeps_limits for trial in trials]
    losses = np.full((len(trials), scale.shape[1]), np.inf)
    if any(is_within):
        losses[is_within] = scaled(np.array([trial.losses for trial in trials if trial.keeps_limits]), scale)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(trials)) for _ in range(NUM_ORDERS)]
    budgets, means, spreads = budgets_of(len(trials)), [], []
    for n in budgets:
        subsets: Iterable[NDArray[np.int64]] = (order[:n] for order in orders)
        if math.comb(len(trials), n) <= NUM_ORDERS:
            subsets = (np.array(places) for places in itertools.combinations(range(len(trials)), n))
        volumes = [_volume(losses[places]) for places in subsets]
        means.append(float(np.mean(volumes)))
        spreads.append(float(np.std(volumes)))
    return Expectation(budgets, means, spreads)


def budgets_of(number: int) -> list[int]:
    """Return the trial counts for which a curve of expected values is computed.

    The result has at most 40 counts, from 1 to half of `number`. `number` is the count of all trials.
    """
    return sorted({round(n) for n in np.geomspace(1, max(1, number // 2), _NUM_BUDGETS).tolist()})


def _volume(losses: Array) -> float:
    return hypervolume(losses[np.isfinite(losses).all(axis=1)])
