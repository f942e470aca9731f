"""Statistics of repeated searches with paired seeds: a permutation test, a confidence interval, the share of wins."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Interval = tuple[float, float]

LEVEL = 0.05
# Efron & Tibshirani 1993, section 13.3: the ends of an interval need at least 1,000.
RESAMPLES = 9_999
FLIPS = 99_999
_EXACT_PAIRS = 16  # for up to 16 pairs, the test uses all of the at most 65,536 sign patterns
_BLOCK = 8  # one random byte says which of 8 numbers are in a set


def mean_bands(values: npt.NDArray[np.float64], seed: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the lower and upper ends of the 95 % bootstrap interval of the mean of each column.

    `values` has one row per repeat, and one column per position of a curve. The method is the percentile bootstrap. A
    resample draws whole rows, because a row is a whole curve.
    """
    repeats = len(values)
    rng = np.random.default_rng(seed)
    # With the share of each row in each resample, one matrix product gives the means of all resamples.
    shares = rng.multinomial(repeats, np.full(repeats, 1 / repeats), size=RESAMPLES) / repeats
    low, high = np.quantile(shares @ values, (LEVEL / 2, 1 - LEVEL / 2), axis=0)
    return low, high


def win_share(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the share of positions at which the loss in `a` is below the loss in `b`; a tie counts as half a win."""
    return statistics.fmean((one < other) + 0.5 * (one == other) for one, other in zip(a, b, strict=True))


@dataclass(frozen=True)
class SignFlips:
    """The sign-flip test of numbers, such as paired differences, and the confidence interval of their mean.

    The hypothesis is that the numbers are symmetric around a shift d. The test subtracts d from each number, and then
    flips the signs of a subset of these deviations. The flip lowers the sum of all deviations if and only if the mean
    of the subset's numbers is above d.

    So the p-value needs only two counts: the subsets with a mean of at most d, and the subsets with a mean of at least
    d. If n is the smaller count, p = min(1, 2 * (n + (the number of empty subsets)) / (the number of subsets)).

    If there are at most 16 numbers, the test uses all their subsets, including the empty subset. If there are more
    numbers, the test uses 99,999 random subsets and one empty subset. An empty subset leaves the signs as observed.

    Attributes:
        means: the sorted means of the subsets that are not empty.
        total: the number of subsets that the test uses, including empty subsets.

    Source: the test is from Fisher 1935, "The Design of Experiments", section 21. One empty subset is added to the
    random subsets, as in Phipson & Smyth 2010, "Permutation P-values Should Never Be Zero". The interval is from
    Hartigan 1969, "Using Subsample Values as Typical Values" (JASA 64).
    """

    means: npt.NDArray[np.float64]
    total: int

    @classmethod
    def of(cls, values: Sequence[float], seed: int) -> "SignFlips":
        """Return the sign-flip test of the numbers in `values`.

        For more than 16 numbers, the test flips the signs of random subsets; `seed` is the seed of these subsets.
        """
        rows = np.stack((values, np.abs(values), np.ones(len(values))))
        if len(values) <= _EXACT_PAIRS:
            sums, magnitudes, sizes = map(_set_sums, rows)
        else:
            rng = np.random.default_rng(seed)
            totals = np.zeros((len(rows), FLIPS + 1))  # The first set is the empty one.
            for start in range(0, len(values), _BLOCK):
                block = rows[:, start : start + _BLOCK]
                sets = rng.integers(2 ** block.shape[1], size=FLIPS, dtype=np.uint8)
                for total, numbers in zip(totals, block, strict=True):
                    total[1:] += _set_sums(numbers)[sets]
            sums, magnitudes, sizes = totals
        # Undo rounding errors: a mean is exactly 0 if the values cancel out, and lies between the extreme values.
        sums[np.abs(sums) < 1e-9 * magnitudes] = 0.0
        is_set = sizes > 0
        means = sums[is_set] / sizes[is_set]
        if len(means):
            means = np.clip(means, min(values), max(values))
        return cls(np.sort(means), len(sums))

    @property
    def p(self) -> float:
        """The two-sided p-value of the test; the hypothesis is that the tested numbers are symmetric around 0."""
        above, below = (int(np.searchsorted(self.means, 0.0, side)) for side in ("left", "right"))
        empty = self.total - len(self.means)
        return min(1.0, 2 * (empty + min(below, len(self.means) - above)) / self.total)

    def interval(self, tests: int = 1) -> Interval | None:
        """Return the interval of all shifts that the test does not reject at the level 0.05 / `tests`.

        The interval excludes 0 exactly if `p` is below 0.05 / `tests`. Return None if there are too few numbers to
        reject any shift.
        """
        rank = math.ceil(LEVEL / 2 * self.total / tests) - (self.total - len(self.means))
        return (float(self.means[rank - 1]), float(self.means[-rank])) if rank > 0 else None


def _set_sums(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the sums of all 2^n subsets of n values; the first sum is the sum of the empty subset."""
    sums = np.zeros(1)
    for value in np.asarray(values, dtype=np.float64):
        sums = np.concatenate((sums, sums + value))
    return sums


def holm(p_values: Sequence[float]) -> list[tuple[float, int]]:
    """Correct p-values for multiple tests; return (corrected p-value, divisor d of the level 0.05 / d) for each.

    The procedure compares the smallest of m p-values with 0.05 / m, the next with 0.05 / (m - 1), and so on. It stops
    at the first p-value that is not below its level. The larger p-values are not below this level either, so they get
    the same divisor.

    For a test with the divisor d, the confidence interval at the level 0.05 / d excludes 0 exactly if the corrected
    p-value is below 0.05. This interval is at least as wide as the interval at the level 0.05.

    The probability that at least one test rejects a true hypothesis is at most 0.05. The probability that at least one
    interval misses its true value may be higher: the intervals are not simultaneous (Guilbaud 2008, "Simultaneous
    Confidence Regions Corresponding to Holm's Step-Down Procedure and Other Closed-Testing Procedures").

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
    """Return how many repeats are needed to reach p < 0.05 after Holm's correction for this many comparisons."""
    # The smallest p-value of n pairs is 2 / 2^n.
    return next(n for n in itertools.count(1) if comparisons * 2 / 2**n < LEVEL)
