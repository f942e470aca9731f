"""Estimates the true value of the best of many noisy trials.

The estimate is the mean score of the best trial minus the optimism. Mean scores contain noise, so the best mean score
usually looks better than the trial's true value. The optimism is this expected error: mean score minus true value.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpo.study.results.noise import Noise
from hpo.trials.fronts import Array, best_first, is_on_front

Choose = Callable[[Array], int | None]
"""A function that gets the trials' means, with shape (trials, names), and returns the row index of the winner.

If there is no winner, the function returns None.
"""

# A trial is no candidate if it is worse than the median by more than this multiple of the best trial's lead over the
# median.
_FAR = 3.0
# The largest number of candidates: more take time, and the worst of them are never chosen.
_MOST_CANDIDATES = 1_000
# The number of simulated searches, and the seed of their random numbers. With 500 searches, the standard error of the
# mean is about a twentieth of their spread.
_DRAWS, _SEED = 500, 0
# The largest number of grid points for true values, and the number of EM steps that fit their distribution.
_MOST_POINTS, _STEPS = 300, 100
# The grid points around the mean of each trial, as offsets in standard errors.
_ABOUT = np.linspace(-2, 2, 9)


@dataclass(frozen=True)
class Variance:
    """The variance of a mean (`size`), and the degrees of freedom of this variance (`freedom`)."""

    size: float
    freedom: float


@dataclass(frozen=True)
class Worth:
    """The expected value of the chosen trial for one name in `Goal.names`.

    Attributes:
        value: the mean of the trial's observed values minus the optimism. The optimism is the mean error (observed
            minus true value) of the winner in simulated searches.
        own: the larger of two variances: the variance of the trial's observed mean (noise), and the variance of the
            winner's error in simulated searches.
        folds: the variance of the mean fold effect, which all trials share.
        columns: the observed value in each fold or, with a hold-out split, with each seed.
        is_alone: whether the columns are folds and there is no other trial; then `own` includes the fold effects.
    """

    value: float
    own: Variance
    folds: Variance
    columns: Array
    is_alone: bool = False


@dataclass(frozen=True)
class Candidates:
    """The trials from which the winner is chosen.

    Attributes:
        values: an array with shape (trials, columns, names). A column is a fold or, with a hold-out split, a seed. The
            last axis has one value for each name in `Goal.names`, or only for the first name if the noise of the others
            is unknown. Metrics to maximize are negated, so that lower is better.
        noises: for each name, one `Noise` with the variances of all trials.
    """

    values: Array
    noises: Sequence[Noise]

    @property
    def means(self) -> Array:
        """The means of `values` over the columns (folds or seeds), with shape (trials, names)."""
        means: Array = self.values.mean(axis=1)
        return means

    @property
    def errors(self) -> Array:
        """The standard errors of `means`, with shape (trials, names); the errors do not include fold effects."""
        errors: Array = np.sqrt(np.stack([noise.variances for noise in self.noises], axis=1) / self.values.shape[1])
        return errors

    def worth(self, chosen: int, choose: Choose) -> list[Worth]:
        """Return, for each name, the expected value of the trial in row `chosen`.

        The expected value is this trial's observed mean minus the optimism. The optimism is the average error of the
        winners in simulated searches; `choose` picks the winners. An error is a winner's observed minus true mean.
        """
        excess, spread = self._optimism(choose)
        columns, worths = self.values.shape[1], list[Worth]()
        for place, noise in enumerate(self.noises):
            between = float(noise.effects.var(ddof=1)) if columns > 1 else 0.0
            of_folds = max(0.0, between - noise.effects_noise) / columns
            # Scale the degrees of freedom of the effects' variance, because the noise was subtracted from it.
            freedom = (columns - 1) * (of_folds * columns / between) ** 2 if of_folds else math.inf
            own = Variance(max(noise.variances[chosen] / columns, spread[place]), float(noise.freedom[chosen]))
            value = float(self.means[chosen, place] - excess[place])
            own_columns = self.values[chosen, :, place]
            worths.append(Worth(value, own, Variance(of_folds, freedom), own_columns, noise.has_one_trial))
        return worths

    def _optimism(self, choose: Choose) -> tuple[Array, Array]:
        """Return two arrays with one number per name: the average and the variance of the winner's error.

        The error is the winner's observed mean minus the winner's true mean. The means are losses: a lower mean is
        better. If the average error is below 0, the winner looks better than it is.

        Use a parametric bootstrap: each simulated search draws the observed means of the trials around their estimated
        true means. Then `choose` picks the winner of this search.
        """
        means, errors = self.means, self.errors
        trials, values = means.shape
        truths = means.copy()
        for value in range(values):
            # With a single value, skip the worse half of the trials: it says nothing about the best ones.
            near = means[:, 0] <= np.median(means[:, 0]) if values == 1 else np.ones(trials, dtype=bool)
            truths[near, value] = true_values(means[near, value], errors[near, value])
        noise, rng, mixed = np.empty(0), np.random.default_rng(_SEED), np.linalg.cholesky(self._correlation()).T
        excess = []
        for draw in range(_DRAWS):
            # Draw antithetic pairs, so that a trial without rivals has an optimism of exactly 0.
            noise = -noise if draw % 2 else rng.normal(size=(trials, values)) @ mixed * errors
            chosen = choose(truths + noise)
            if chosen is not None:
                excess.append(noise[chosen])
        if not excess:
            return np.zeros(values), np.zeros(values)
        return np.mean(excess, axis=0), np.var(excess, axis=0)

    def _correlation(self) -> Array:
        """Return the correlation matrix of the noise, with shape (names, names).

        Element (i, j) is the correlation between the noise in the values for name i and the noise in the values for
        name j.
        """
        effects = np.stack([noise.effects for noise in self.noises], axis=1)
        sizes = np.sqrt(np.stack([noise.variances for noise in self.noises], axis=1))[:, None, :]
        residuals = self.values - self.means[:, None, :] - effects
        scaled = np.divide(residuals, sizes, out=np.zeros_like(residuals), where=sizes > 0).reshape(
            -1, residuals.shape[2]
        )
        products = scaled.T @ scaled
        norms = np.sqrt(np.outer(products.diagonal(), products.diagonal()))
        correlation = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
        np.fill_diagonal(correlation, 1.0)
        # Regularize, because proportional values would make the matrix singular.
        regular: Array = 0.999 * correlation + 0.001 * np.eye(len(correlation))
        return regular


def near_best(means: Array, keep_limits: NDArray[np.bool], num_metrics: int = 1) -> NDArray[np.intp]:
    """Return the row indexes of the trials that may be the best.

    Leave out trials that are far worse than the median trial in the leading metric, such as diverged trainings. With
    several metrics, keep every trial on the Pareto front, even a far worse one. If more than 1000 trials remain, return
    only the best 1000.

    Args:
        means: the means of the trials, with shape (trials, names). Lower means are better.
        keep_limits: for each trial, whether it keeps the limits; at least one trial must keep the limits.
        num_metrics: the number of metrics; the metrics are the first columns of `means`.
    """
    leading = means[:, 0]
    middle = np.median(leading[keep_limits])
    is_near = leading <= middle + _FAR * (middle - leading[keep_limits].min())
    if num_metrics > 1:
        is_near |= is_on_front(means[:, :num_metrics])
    rows = np.flatnonzero(is_near)
    if len(rows) > _MOST_CANDIDATES:
        rows = np.sort(rows[best_first(means[rows, :num_metrics], _MOST_CANDIDATES)])
    return rows


def true_values(means: Array, errors: Array) -> Array:
    """Return the posterior mean of each trial's true value, given its observed mean and the standard error.

    If any standard error is 0, return the observed means.

    The prior, the distribution of the true values, is the nonparametric maximum likelihood estimate (Kiefer & Wolfowitz
    1956, "Consistency of the maximum likelihood estimator in the presence of infinitely many incidental parameters").
    The EM algorithm fits the prior on a grid (Koenker & Mizera 2014, "Convex optimization, shape constraints, compound
    decisions, and empirical Bayes rules").
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
