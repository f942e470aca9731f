"""Intervals, the probability to win, the sign-flip test and Holm's correction, against scipy and by their laws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hpo.compare.statistics import fewest_repeats, holm, mean_bands, mean_interval, sign_flip_p, win_interval, win_share

LOSSES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)
PROBABILITIES = st.lists(st.floats(0, 1), max_size=8)


def normal(count, seed=0, mean=0.4):
    return np.random.default_rng(seed).normal(mean, 1, count).tolist()


@pytest.mark.parametrize("pairs", [1, 5, 6, 10])
def test_when_one_always_wins_the_smallest_p_is_two_patterns_of_all(pairs):
    assert sign_flip_p([1.0 + k for k in range(pairs)], 0) == 2 / 2**pairs
    assert sign_flip_p([-0.1] * pairs, 0) == 2 / 2**pairs


@pytest.mark.parametrize("differences", [normal(8), [1.0, -1, 1, 1, 0, 2, 2], [0.1] * 3 + [0.3], [0.0, 0.0]])
def test_the_exact_test_is_scipys(differences):
    reference = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_p(differences, 0) == pytest.approx(reference.pvalue, abs=1e-12)


def test_the_random_test_is_near_scipys_and_never_zero():
    differences = normal(24)
    reference = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=9_999, rng=1)
    assert sign_flip_p(differences, 0) == pytest.approx(reference.pvalue, abs=0.01)
    assert 0 < sign_flip_p([1.0] * 40, 0) < 1e-4


@pytest.mark.parametrize("comparisons", [1, 3, 10, 45])
def test_the_fewest_repeats_are_those_that_can_reach_significance(comparisons):
    needed = fewest_repeats(comparisons)
    smallest = [2 / 2**pairs for pairs in (needed - 1, needed)]
    corrected = [holm([p, *[1.0] * (comparisons - 1)])[0] for p in smallest]
    assert corrected[1] < 0.05 <= corrected[0]
    assert comparisons > 1 or needed == 6


def test_holm_on_an_example_worked_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(PROBABILITIES)
def test_holm_keeps_the_order_never_lowers_and_never_exceeds_bonferroni(p_values):
    corrected = holm(p_values)
    for p, own in zip(p_values, corrected, strict=True):
        assert p <= own <= min(1.0, len(p_values) * p) + 1e-12
        assert all(own <= other for q, other in zip(p_values, corrected, strict=True) if p < q)


@given(st.data(), LOSSES)
def test_what_a_wins_b_loses(data, a):
    b = data.draw(st.lists(st.integers(-3, 3).map(float), min_size=len(a), max_size=len(a)))
    share = win_share(a, b)
    assert share + win_share(b, a) == pytest.approx(1)
    low, high = win_interval(share, len(a))
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    assert win_interval(1 - share, len(a)) == pytest.approx((1 - high, 1 - low))


def test_the_interval_of_wins_is_wilsons_and_doubts_six_of_six():
    reference = stats.binomtest(21, 30).proportion_ci(0.95, method="wilson")
    assert win_interval(0.7, 30) == pytest.approx((reference.low, reference.high))
    assert win_interval(1.0, 6)[0] < 0.65


def test_the_interval_of_a_mean_is_near_students_for_many_normal_values():
    values = normal(200)
    reference = stats.t.interval(0.95, 199, np.mean(values), stats.sem(values))
    width = reference[1] - reference[0]
    assert mean_interval(values, 0) == pytest.approx(reference, abs=0.05 * width)


def test_the_interval_of_a_mean_at_its_ends():
    assert mean_interval([0.5], 0) is None
    assert mean_interval([0.5] * 9, 0) == (0.5, 0.5)
    assert mean_interval(normal(9), 3) == mean_interval(normal(9), 3)


def test_an_interval_of_the_mean_stays_within_the_values():
    losses = [-20.23] * 29 + [-19.39]
    low, high = mean_interval(losses, 0)
    assert low == -20.23
    assert high < -19.39


def test_the_band_of_a_curve_is_scipys_percentile_bootstrap():
    values = np.random.default_rng(0).normal(0, 1, (30, 4))
    low, high = mean_bands(values, 0)
    for place in range(4):
        found = stats.bootstrap((values[:, place],), np.mean, method="percentile", n_resamples=9_999, rng=1)
        width = found.confidence_interval.high - found.confidence_interval.low
        assert low[place] == pytest.approx(found.confidence_interval.low, abs=0.05 * width)
        assert high[place] == pytest.approx(found.confidence_interval.high, abs=0.05 * width)
    assert math.isfinite(float(low.sum() + high.sum()))
