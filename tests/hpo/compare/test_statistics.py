"""The sign-flip test with its interval, the probability to win, Holm's correction: against scipy and by their laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hpo.compare.statistics import SignFlips, fewest_repeats, holm, mean_bands


def normal(count, seed=0, mean=0.4):
    return np.random.default_rng(seed).normal(mean, 1, count).tolist()


EXACT = [normal(8), [1.0, -1, 1, 1, 0, 2, 2], [0.1] * 3 + [0.3], [0.0, 0.0], *([-0.1] * pairs for pairs in (2, 5, 10))]


@pytest.mark.parametrize("differences", EXACT)
def test_the_exact_test_is_scipys(differences):
    reference = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert SignFlips.of(differences, 0).p == pytest.approx(reference.pvalue, abs=1e-12)
    # Rounding breaks no tie.
    whole, tenths = [3, -1, -2, 1] * 3, [0.3, -0.1, -0.2, 0.1] * 3
    assert SignFlips.of(tenths, 0).p == SignFlips.of(whole, 0).p
    assert SignFlips.of([1e8, *(0.01 + k / 1000 for k in range(9))], 0).p == 2 / 2**10


def test_the_random_test_is_near_scipys_and_never_zero():
    differences = normal(24)
    reference = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=9_999, rng=1)
    assert SignFlips.of(differences, 0).p == pytest.approx(reference.pvalue, abs=0.01)
    assert 0 < SignFlips.of([1.0] * 40, 0).p < 1e-4
    assert SignFlips.of(differences, 3).interval() == SignFlips.of(differences, 3).interval()


@given(st.lists(st.integers(-3, 3), max_size=20), st.integers(-6, 6), st.integers(1, 4))
def test_the_interval_has_the_shifts_that_the_test_does_not_reject(values, half_shifts, tests):
    shift = half_shifts / 2
    interval = SignFlips.of(values, 0).interval(tests)
    is_rejected = SignFlips.of([value - shift for value in values], 0).p < 0.05 / tests
    assert is_rejected == (interval is not None and not interval[0] <= shift <= interval[1])


@pytest.mark.parametrize("comparisons", [1, 3, 10, 45])
def test_the_fewest_repeats_are_those_that_can_reach_significance(comparisons):
    needed = fewest_repeats(comparisons)
    corrected = [holm([p, *[1.0] * (comparisons - 1)])[0][0] for p in [2 / 2**pairs for pairs in (needed - 1, needed)]]
    assert corrected[1] < 0.05 <= corrected[0]
    intervals = [SignFlips.of(normal(pairs), 0).interval(comparisons) for pairs in (needed - 1, needed)]
    assert intervals[0] is None is not intervals[1]
    assert comparisons > 1 or needed == 6


def test_holm_on_an_example_worked_by_hand():
    corrected, divisors = zip(*holm([0.01, 0.04, 0.03, 0.005]), strict=True)
    assert corrected == pytest.approx([0.03, 0.06, 0.06, 0.02])
    # The third is the first that is not below 0.05 / 2, and what comes after it is compared no more.
    assert divisors == (3, 2, 2, 4)
    assert holm([]) == []


def test_the_band_of_a_curve_is_scipys_percentile_bootstrap():
    values = np.random.default_rng(0).normal(0, 1, (30, 4))
    for column, low, high in zip(values.T, *mean_bands(values, 0), strict=True):
        found = stats.bootstrap((column,), np.mean, method="percentile", n_resamples=9_999, rng=1).confidence_interval
        assert (low, high) == pytest.approx((found.low, found.high), abs=0.05 * (found.high - found.low))
