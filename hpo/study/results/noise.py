"""Estimates the noise of trials: a trial's variance over folds or seeds, moderated by the variances of all trials."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpo.trials.fronts import Array

# How many times fold effects and the trials' weights are estimated in turn; the second time already changes little.
_ROUNDS = 3
# The fewest trials for fitting a trend of the noise over their ranks, and the fewest for moderated variances.
_LEAST_FOR_LINE, _LEAST_TO_MODERATE = 8, 4
# A variance of 0 comes from rounded scores. It counts as this share of a typical variance.
_LEAST_SHARE = 1e-5


@dataclass(frozen=True)
class Noise:
    """The noise of trials' losses. Each trial has one loss per column.

    A column is a fold. With a hold-out split, a column is a seed.

    Attributes:
        variances: for each trial, the variance of a single loss around its expected value. The expected value is the
            trial's mean loss plus the effect of the fold.
        freedom: the degrees of freedom of each variance in `variances`.
        effects: for each column, the shift of all trials' losses. If the columns are seeds, every effect is 0, because
            a seed does not shift all trials equally.
        effects_noise: the part of the variance of `effects` that comes from the noise of the trials.
        has_one_trial: whether there is only one trial and its columns are folds; `variances` then includes the fold
            effects, because these cannot be separated from the noise.
    """

    variances: Array
    freedom: Array
    effects: Array
    effects_noise: float = 0.0
    has_one_trial: bool = False

    def of(self, rows: Sequence[int]) -> "Noise":
        """Return the noise of some of the trials; `rows` has their indexes in `variances`."""
        return replace(self, variances=self.variances[[*rows]], freedom=self.freedom[[*rows]])

    def pooled_with(self, before: "Noise") -> "Noise":
        """Return this noise, with each variance pooled with the variance of the same trial in `before`.

        The pooled variance is a weighted mean, and the weights are the degrees of freedom.
        """
        freedom = self.freedom + before.freedom
        variances = (self.freedom * self.variances + before.freedom * before.variances) / freedom
        return replace(self, variances=variances, freedom=freedom)


def noise_of(losses: Array, are_folds: bool) -> Noise:
    """Return the noise of trials from their finite losses, of shape (trials, columns) with two or more columns.

    With few columns, the variance of a single trial is a poor estimate, so each variance is shrunk towards a line. The
    line predicts the variance from the trial's rank, because trials far from the best are often noisier. The method is
    moderated variances (Smyth 2004, "Linear models and empirical Bayes methods for assessing differential expression in
    microarray experiments", sections 3 and 6) with the trend of the program limma. The uncertainty of the line at a
    trial's rank reduces the degrees of freedom of the trial's variance. With fewer than 8 trials, the line is constant.
    With fewer than 4 trials, every trial gets the mean variance.

    If the columns are folds, each fold is assumed to shift the losses of all trials equally. This shift is the fold's
    effect. The effect is subtracted from the fold's losses before the variances are computed. To estimate the effect,
    take the difference (a trial's loss in the fold) - (the trial's mean loss) for each trial, then the weighted mean
    over the trials. A trial's weight is the inverse of the variance that the line predicts for the trial, so that noisy
    trials do not hide the effects.
    """
    trials, columns = losses.shape
    means = losses.mean(axis=1)
    deviations = losses - means[:, None]
    # With a single trial, fold effects cannot be separated from noise.
    have_effects = are_folds and trials > 1
    own = (columns - 1) * ((trials - 1) / trials if have_effects else 1.0)
    most = (columns - 1) * (trials - 1.0 if have_effects else float(trials))
    ranks = np.argsort(np.argsort(-means, kind="stable"), kind="stable") / max(trials - 1, 1) - 0.5
    design = np.stack([np.ones(trials), ranks] if trials >= _LEAST_FOR_LINE else [np.ones(trials)], axis=1)
    hat = design @ np.linalg.pinv(design)
    better = means <= np.median(means)
    weights, effects = better / better.sum(), np.zeros(columns)
    for _ in range(_ROUNDS):
        effects = weights @ deviations if have_effects else effects
        remaining = 1 - weights if have_effects else np.ones(trials)
        variances = ((deviations - effects) ** 2).sum(axis=1) / (columns - 1) / np.maximum(remaining, 0.5)
        if not variances.any():
            return Noise(variances, np.full(trials, most), effects)
        variances = np.maximum(variances, _LEAST_SHARE * (np.median(variances) or variances.max()))
        logs = np.log(variances)
        line = hat @ logs
        weights = np.exp(line.min() - line)
        weights /= weights.sum()
    effects_noise = float(weights**2 @ variances) if have_effects else 0.0
    if trials < _LEAST_TO_MODERATE:
        pooled = np.full(trials, variances.mean())
        return Noise(pooled, np.full(trials, most), effects, effects_noise, has_one_trial=are_folds and trials == 1)
    from scipy.special import digamma, polygamma  # imported late, because it is slow to load

    # Smyth's equations for d0 and s0 squared, for each trial: the variance of the logs beyond sampling, plus the
    # uncertainty of the line.
    sampling = float(polygamma(1, own / 2))
    spread = float(((logs - line) ** 2).sum() / (trials - design.shape[1]))
    uncertain = max(spread - sampling, 0.0) + np.diag(hat) * max(spread, sampling)
    degrees = 2 * np.array([_trigamma_inverse(float(value)) for value in uncertain])
    expected = np.exp(line - digamma(own / 2) + np.log(own / 2) + digamma(degrees / 2) - np.log(degrees / 2))
    moderated = (degrees * expected + own * variances) / (degrees + own)
    return Noise(moderated, np.minimum(degrees + own, most), effects, effects_noise)


def _trigamma_inverse(value: float) -> float:
    """Return the argument at which the trigamma function has this value, by Newton's method (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    argument = 0.5 + 1 / value
    for _ in range(50):
        current = float(polygamma(1, argument))
        step = current * (1 - current / value) / float(polygamma(2, argument))
        argument += step
        if -step / argument < 1e-8:
            break
    return argument
