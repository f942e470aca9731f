"""Statistics of repeated searches with paired seeds: a permutation test, its interval, the probability to win."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpo.trials.estimate import wilson_interval

Interval = tuple[float, float]

LEVEL = 0.05
# Efron & Tibshirani 1993, section 13.3: at least 1,000 for the ends of an interval.
RESAMPLES = 9_999
FLIPS = 99_999
_EXACT_PAIRS = 16  # up to 65,536 sign patterns are all tested
_BLOCK = 8  # numbers whose sets are drawn at once, as a byte


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
    return wilson_interval(share, pairs)


@dataclass(frozen=True)
class SignFlips:
    """The sign-flip test of numbers, such as paired differences, and the interval of their mean that it gives.

    The hypothesis is that the numbers lie symmetrically around a shift d. Flipping the signs of a set of `values - d`
    lowers their sum by twice that of the set, so a flipped sum is as high as the observed one exactly where the set has
    a mean of d or less. The sorted means of all sets are thus all that the test needs, for every shift.

    Attributes:
        means: those of all non-empty sets for up to 16 numbers, of 99,999 random sets for more; ascending.
        total: the number of sets, with empty ones: the observed signs are one.

    Source: the test is Fisher's, 1935, "The Design of Experiments", section 21; with random sets the observed signs are
    counted among them, as in Phipson & Smyth 2010, "Permutation P-values Should Never Be Zero"; the interval is that of
    Hartigan 1969, "Using Subsample Values as Typical Values" (JASA 64).
    """

    means: npt.NDArray[np.float64]
    total: int

    @classmethod
    def of(cls, values: Sequence[float], seed: int) -> "SignFlips":
        """Return the flips of these numbers; `seed` is that of the random sets."""
        if len(values) <= _EXACT_PAIRS:
            sums, sizes = _set_sums(values), _set_sums(np.ones(len(values)))
        else:
            rng = np.random.default_rng(seed)
            sums, sizes = np.zeros(FLIPS + 1), np.zeros(FLIPS + 1)  # The first set stays empty.
            for start in range(0, len(values), _BLOCK):
                block = values[start : start + _BLOCK]
                sets = rng.integers(2 ** len(block), size=FLIPS, dtype=np.uint8)
                sums[1:] += _set_sums(block)[sets]
                sizes[1:] += _set_sums(np.ones(len(block)))[sets]
        is_set = sizes > 0
        means = sums[is_set] / sizes[is_set]
        if len(means):
            # Sums are rounded: no mean is outside of the values, and of a set that cancels out it is 0.
            means = np.clip(means, min(values), max(values))
            means[np.abs(means) < 1e-9 * np.abs(values).max()] = 0.0
        return cls(np.sort(means), len(sums))

    @property
    def p(self) -> float:
        """The two-sided p-value of the hypothesis that the numbers lie symmetrically around 0."""
        above, below = (int(np.searchsorted(self.means, 0.0, side)) for side in ("left", "right"))
        empty = self.total - len(self.means)
        return min(1.0, 2 * (empty + min(below, len(self.means) - above)) / self.total)

    def interval(self, tests: int = 1) -> Interval | None:
        """Return the ends of all shifts that the test does not reject at the level 0.05 / `tests`.

        It is without 0 exactly where p is below that level. None = no shift can be rejected by so few numbers.
        """
        rank = math.ceil(LEVEL / 2 * self.total / tests) - (self.total - len(self.means))
        return (float(self.means[rank - 1]), float(self.means[-rank])) if rank > 0 else None


def _set_sums(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the sum of every set of the values, 2^n; the first is that of the empty set."""
    sums = np.zeros(1)
    for value in np.asarray(values, dtype=np.float64):
        sums = np.concatenate((sums, sums + value))
    return sums


def holm(p_values: Sequence[float]) -> list[tuple[float, int]]:
    """Return each p-value corrected for multiple tests, and by what 0.05 is divided for its test, in their own order.

    The smallest of m is compared with 0.05 / m, the next with 0.05 / (m - 1), and so on, up to the first that is not
    below. The tests end there; all after it have its divisor, too, and since they are not smaller, they are not below
    that level either. So an interval at 0.05 / divisor is without 0 exactly where the corrected p-value is below 0.05.
    Each such interval is at least as wide as that of one test alone. Together they promise what the verdicts do, not
    that all hold at once (Guilbaud 2008, "Simultaneous Confidence Regions Corresponding to Holm's Step-Down Procedure
    and Other Closed-Testing Procedures").

    Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
    """
    corrected = [(0.0, 0)] * len(p_values)
    highest, divisor = 0.0, 1
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if highest < LEVEL:
            divisor = len(p_values) - rank
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest, divisor
    return corrected


def fewest_repeats(comparisons: int) -> int:
    """Return how many pairs a sign-flip test needs to reach p < 0.05 after Holm's correction, such as 6 for one."""
    # The smallest p-value of n pairs is 2 / 2^n.
    return next(n for n in itertools.count(1) if comparisons * 2 / 2**n < LEVEL)
