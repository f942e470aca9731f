"""How noisy the scores of trials are: the variance of each over folds or seeds, steadied by those of all others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpo.trials.fronts import Array

# Rounds in which fold effects and the trials' weights in them settle; the second already changes little.
_ROUNDS = 3
# From so many trials on their noise may follow a line over their ranks. So many it takes to moderate variances at all.
_LEAST_FOR_LINE, _LEAST_TO_MODERATE = 8, 4
# A variance of 0 comes from rounded scores: it counts as this share of a typical one.
_LEAST_SHARE = 1e-5


@dataclass(frozen=True)
class Noise:
    """The noise of trials in one column (a fold, or a seed of a hold-out).

    Attributes:
        variances: of each trial, about its own mean and what the columns have in common.
        freedom: with how many degrees of freedom each of these is known.
        effects: what each fold adds to the loss of every trial; all 0 where columns have nothing in common.
        of_effects: how much of the variance of the effects is noise of the trials.
        is_of_one: whether it is of a single trial on folds, whose effects are then part of its noise.
    """

    variances: Array
    freedom: Array
    effects: Array
    of_effects: float = 0.0
    is_of_one: bool = False

    def of(self, rows: Sequence[int]) -> "Noise":
        """Return that of some of the trials."""
        return replace(self, variances=self.variances[[*rows]], freedom=self.freedom[[*rows]])

    def and_earlier(self, before: "Noise") -> "Noise":
        """Return it together with what was known of the same trials before."""
        freedom = self.freedom + before.freedom
        variances = (self.freedom * self.variances + before.freedom * before.variances) / freedom
        return replace(self, variances=variances, freedom=freedom)


def noise_of(losses: Array, are_folds: bool) -> Noise:
    """Return the noise of trials with losses of shape (trials, columns), finite, in two columns or more.

    With few columns a trial's own variance says little, and trials far from the best are often noisier. So variances
    are shrunk towards a line over the trials' ranks: moderated variances with a trend (Smyth 2004, "Linear models and
    empirical Bayes methods for assessing differential expression in microarray experiments", sections 3 and 6; the
    trend is that of limma, the program of that paper). How well the line is known (the leverage of each trial) counts
    in the degrees of freedom.

    Folds have effects of their own, which all trials share. Each trial counts there by the inverse of its noise on the
    line, so that noisy trials do not hide what the others have in common.
    """
    trials, columns = losses.shape
    means = losses.mean(axis=1)
    apart = losses - means[:, None]
    # What the folds add to a single trial cannot be told from its noise.
    have_effects = are_folds and trials > 1
    own = (columns - 1) * ((trials - 1) / trials if have_effects else 1.0)
    most = (columns - 1) * (trials - 1.0 if have_effects else float(trials))
    ranks = np.argsort(np.argsort(-means, kind="stable"), kind="stable") / max(trials - 1, 1) - 0.5
    design = np.stack([np.ones(trials), ranks] if trials >= _LEAST_FOR_LINE else [np.ones(trials)], axis=1)
    hat = design @ np.linalg.pinv(design)
    better = means <= np.median(means)
    weights, effects = better / better.sum(), np.zeros(columns)
    for _ in range(_ROUNDS):
        effects = weights @ apart if have_effects else effects
        left = 1 - weights if have_effects else np.ones(trials)
        variances = ((apart - effects) ** 2).sum(axis=1) / (columns - 1) / np.maximum(left, 0.5)
        if not variances.any():
            return Noise(variances, np.full(trials, most), effects)
        variances = np.maximum(variances, _LEAST_SHARE * (np.median(variances) or variances.max()))
        logs = np.log(variances)
        line = hat @ logs
        weights = np.exp(line.min() - line)
        weights /= weights.sum()
    of_effects = float(weights**2 @ variances) if have_effects else 0.0
    if trials < _LEAST_TO_MODERATE:
        pooled = np.full(trials, variances.mean())
        return Noise(pooled, np.full(trials, most), effects, of_effects, is_of_one=are_folds and trials == 1)
    from scipy.special import digamma, polygamma  # here: it takes a while to load

    # Smyth's equations for d0 and s0 squared, trial by trial: what the logs vary beyond their sampling, and the line's
    # own uncertainty.
    sampling = float(polygamma(1, own / 2))
    spread = float(((logs - line) ** 2).sum() / (trials - design.shape[1]))
    uncertain = max(spread - sampling, 0.0) + np.diag(hat) * max(spread, sampling)
    degrees = 2 * np.array([_trigamma_inverse(float(value)) for value in uncertain])
    expected = np.exp(line - digamma(own / 2) + np.log(own / 2) + digamma(degrees / 2) - np.log(degrees / 2))
    moderated = (degrees * expected + own * variances) / (degrees + own)
    return Noise(moderated, np.minimum(degrees + own, most), effects, of_effects)


def _trigamma_inverse(value: float) -> float:
    """Return where the trigamma function has this value, by Newton's method (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    found = 0.5 + 1 / value
    for _ in range(50):
        now = float(polygamma(1, found))
        step = now * (1 - now / value) / float(polygamma(2, found))
        found += step
        if -step / found < 1e-8:
            break
    return found
