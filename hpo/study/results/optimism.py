"""What the best of many noisy trials is worth: its loss, plus what it owes to having been chosen as the best."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpo.study.results.noise import Noise
from hpo.trials.fronts import Array, best_first, is_on_front

Choose = Callable[[Array], int | None]
"""Returns the row of the winner among trials with these means, (trials, values); None where none keeps the limits."""

# Trials that are worse than the median by more than so many times what the best is better are left out.
_FAR = 3.0
# The best may be chosen: with more candidates the time would grow, and the worst of them are never chosen.
_MOST_CANDIDATES = 1_000
# Searches that are drawn anew, by a generator of this seed: their mean is known to a twentieth of their spread.
_DRAWS, _SEED = 500, 0
# Points of the grid on which the true values lie, and steps in which their distribution is fitted.
_MOST_POINTS, _STEPS = 300, 100
# Points about each trial, in standard errors.
_ABOUT = np.linspace(-2, 2, 9)


@dataclass(frozen=True)
class Variance:
    """The variance of a mean, and with how many degrees of freedom it is known."""

    size: float
    freedom: float


@dataclass(frozen=True)
class Worth:
    """What a chosen trial is expected to have of one value.

    Attributes:
        value: its mean, less the optimism.
        own: the variance of its own noise or of the optimism, whichever is larger.
        folds: the variance of what the folds add to all trials alike.
        columns: what it has in each fold, or with each seed of a hold-out.
        is_alone: whether there is no other trial from which to tell what the folds add, which `own` then holds, too.
    """

    value: float
    own: Variance
    folds: Variance
    columns: Array
    is_alone: bool = False


@dataclass(frozen=True)
class Candidates:
    """Trials of which one is chosen.

    Attributes:
        values: what they have in each column, (trials, columns, values); of the metrics lower is better. A column is a
            fold, or with a hold-out a seed.
        noises: of each value, the noise of these trials.
    """

    values: Array
    noises: Sequence[Noise]

    @property
    def means(self) -> Array:
        """What they have: (trials, values)."""
        means: Array = self.values.mean(axis=1)
        return means

    @property
    def errors(self) -> Array:
        """The standard errors of the means, fold effects left out: (trials, values)."""
        errors: Array = np.sqrt(np.stack([noise.variances for noise in self.noises], axis=1) / self.values.shape[1])
        return errors

    def worth(self, chosen: int, choose: Choose) -> list[Worth]:
        """Return what the trial that was chosen is worth, of each value."""
        excess, spread = self._optimism(choose)
        columns, found = self.values.shape[1], list[Worth]()
        for place, noise in enumerate(self.noises):
            between = float(noise.effects.var(ddof=1)) if columns > 1 else 0.0
            of_folds = max(0.0, between - noise.of_effects) / columns
            # Known as well as the variance of the effects, of which it is what their noise leaves.
            freedom = (columns - 1) * (of_folds * columns / between) ** 2 if of_folds else math.inf
            own = Variance(max(noise.variances[chosen] / columns, spread[place]), float(noise.freedom[chosen]))
            value = float(self.means[chosen, place] - excess[place])
            columns_of = self.values[chosen, :, place]
            found.append(Worth(value, own, Variance(of_folds, freedom), columns_of, noise.is_of_one))
        return found

    def _optimism(self, choose: Choose) -> tuple[Array, Array]:
        """Return how much each value of the winner exceeds its true one, on average, and the variance of that.

        A parametric bootstrap: searches are drawn anew from the true values of the trials, as they are estimated, and
        in each one is chosen as it was here. Below 0 the winner looks better than it is.
        """
        means, errors = self.means, self.errors
        trials, values = means.shape
        truths = means.copy()
        for value in range(values):
            # The worse half says nothing of the best, where one value decides.
            near = means[:, 0] <= np.median(means[:, 0]) if values == 1 else np.ones(trials, dtype=bool)
            truths[near, value] = true_values(means[near, value], errors[near, value])
        noise, rng, mixed = np.empty(0), np.random.default_rng(_SEED), np.linalg.cholesky(self._correlation()).T
        excess = []
        for draw in range(_DRAWS):
            # Each noise is followed by its opposite: what has no rival has no optimism.
            noise = -noise if draw % 2 else rng.normal(size=(trials, values)) @ mixed * errors
            chosen = choose(truths + noise)
            if chosen is not None:
                excess.append(noise[chosen])
        if not excess:
            return np.zeros(values), np.zeros(values)
        return np.mean(excess, axis=0), np.var(excess, axis=0)

    def _correlation(self) -> Array:
        """Return how the noise of the values goes together within a trial: (values, values)."""
        effects = np.stack([noise.effects for noise in self.noises], axis=1)
        sizes = np.sqrt(np.stack([noise.variances for noise in self.noises], axis=1))[:, None, :]
        apart = self.values - self.means[:, None, :] - effects
        scaled = np.divide(apart, sizes, out=np.zeros_like(apart), where=sizes > 0).reshape(-1, apart.shape[2])
        products = scaled.T @ scaled
        norms = np.sqrt(np.outer(products.diagonal(), products.diagonal()))
        correlation = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
        np.fill_diagonal(correlation, 1.0)
        # Values of which one is a multiple of another would make it singular.
        regular: Array = 0.999 * correlation + 0.001 * np.eye(len(correlation))
        return regular


def near_ones(means: Array, keep_limits: NDArray[np.bool], num_metrics: int = 1) -> NDArray[np.intp]:
    """Return the rows of the trials that may be the winner: the others are far worse, such as those that diverged.

    Of the first values lower is better: of so many metrics. With several, those that none dominates stay.
    """
    leading = means[:, 0]
    middle = np.median(leading[keep_limits])
    kept = leading <= middle + _FAR * (middle - leading[keep_limits].min())
    if num_metrics > 1:
        kept |= is_on_front(means[:, :num_metrics])
    rows = np.flatnonzero(kept)
    if len(rows) > _MOST_CANDIDATES:
        rows = np.sort(rows[best_first(means[rows, :num_metrics], _MOST_CANDIDATES)])
    return rows


def true_values(means: Array, errors: Array) -> Array:
    """Return the expected true value of each mean, which has this standard error.

    The distribution of the true values is estimated without a form, by maximum likelihood (Kiefer & Wolfowitz 1956,
    "Consistency of the maximum likelihood estimator in the presence of infinitely many incidental parameters"), on a
    grid and by the EM algorithm (Koenker & Mizera 2014, "Convex optimization, shape constraints, compound decisions,
    and empirical Bayes rules"). What is returned is the mean of each trial's posterior.
    """
    if not errors.all():
        return means
    grid = np.unique(means[:, None] + errors[:, None] * _ABOUT)
    if len(grid) > _MOST_POINTS:
        grid = np.quantile(grid, np.linspace(0, 1, _MOST_POINTS))
    squares = ((means[:, None] - grid) / errors[:, None]) ** 2
    likelihood = np.exp((squares.min(axis=1, keepdims=True) - squares) / 2)
    prior = np.full(len(grid), 1 / len(grid))
    for _ in range(_STEPS):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = posterior.mean(axis=0)
    posterior = likelihood * prior
    values: Array = posterior @ grid / posterior.sum(axis=1)
    return values
