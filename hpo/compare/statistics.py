"""Statistics of repeated searches with paired seeds: intervals, the probability to win, a permutation test."""

import itertools
import math
import statistics
import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Interval = tuple[float, float]

LEVEL = 0.05
# Efron & Tibshirani 1993, section 13.3: at least 1,000 for the ends of an interval.
RESAMPLES = 9_999
FLIPS = 99_999
_EXACT_PAIRS = 16  # up to 65,536 sign patterns are all tested


def mean_interval(values: Sequence[float], seed: int) -> Interval | None:
    """Return the 95 % bootstrap interval of the mean; None for fewer than two values.

    Source: bias-corrected and accelerated bootstrap, Efron 1987, "Better Bootstrap Confidence Intervals", in
    `scipy.stats.bootstrap`.
    """
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    if max(values) - min(values) <= 1e-12 * max(1.0, abs(mean)):
        return mean, mean  # The method divides by the spread.
    from scipy import stats  # Half a second to load: only where searches are compared.

    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        bootstrap = stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, confidence_level=1 - LEVEL, rng=rng)
    low, high = float(bootstrap.confidence_interval.low), float(bootstrap.confidence_interval.high)
    if not math.isfinite(low + high):
        return None
    # No mean lies outside of its values, but sums are rounded: a regret would be reported as -4e-15.
    return max(low, min(values)), min(high, max(values))


def mean_bands(values: npt.NDArray[np.float64], seed: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the lower and upper ends of 95 % bootstrap intervals of each column's mean; `values` is (repeats, places).

    The percentile method: a resample draws whole rows, so that the band of a curve comes from curves.
    """
    repeats = len(values)
    rng = np.random.default_rng(seed)
    # How often each row is drawn in each resample: one product gives the means of all resamples.
    shares = rng.multinomial(repeats, np.full(repeats, 1 / repeats), size=RESAMPLES) / repeats
    low, high = np.quantile(shares @ values, (LEVEL / 2, 1 - LEVEL / 2), axis=0)
    return low, high


def win_share(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the share of pairs in which the loss in `a` is below that in `b`; a tie is half a win."""
    return statistics.fmean((mine < its) + 0.5 * (mine == its) for mine, its in zip(a, b, strict=True))


def win_interval(share: float, pairs: int) -> Interval:
    """Return the 95 % interval of the probability that A beats B, given its share of wins.

    Source: the probability is that of Bouthillier et al. 2021 (arXiv 2103.03098), section 4; the interval is the score
    interval of Wilson 1927, since the bootstrap of the former gives [1, 1] for six wins of six. Ties make it too wide.
    """
    z = statistics.NormalDist().inv_cdf(1 - LEVEL / 2)
    centre = (share + z**2 / (2 * pairs)) / (1 + z**2 / pairs)
    half = z / (1 + z**2 / pairs) * math.sqrt(share * (1 - share) / pairs + z**2 / (4 * pairs**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def sign_flip_p(differences: Sequence[float], seed: int) -> float:
    """Return the two-sided p-value of the hypothesis that the sign of each difference is random.

    All patterns of signs are tested for up to 16 pairs, 99,999 random ones for more.

    Source: Fisher 1935, "The Design of Experiments", section 21; with random patterns the observed one is counted
    among them, as in Phipson & Smyth 2010, "Permutation P-values Should Never Be Zero".
    """
    from scipy import stats  # Half a second to load: only where searches are compared.

    pairs = len(differences)
    if pairs < 2:
        return 1.0
    test = stats.permutation_test(
        (np.asarray(differences, dtype=np.float64),),
        lambda values, axis: np.sum(values, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=2**pairs if pairs <= _EXACT_PAIRS else FLIPS,
        rng=np.random.default_rng(seed),
    )
    return float(test.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values, corrected for multiple tests, in their own order.

    Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


def fewest_repeats(comparisons: int) -> int:
    """Return how many pairs a sign-flip test needs to reach p < 0.05 after Holm's correction, such as 6 for one."""
    # The smallest p-value of n pairs is 2 / 2^n.
    return next(n for n in itertools.count(1) if comparisons * 2 / 2**n < LEVEL)
