"""The two intervals of an estimate: against references, and how often they hold the truth."""

import numpy as np
import pytest
from scipy import stats

from hpo.trials.estimate import Estimate, bootstrap_interval, wilson_interval


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 7), (21, 30), (178, 180), (180, 180), (5_000, 10_000)])
def test_the_interval_of_a_share_is_wilsons(hits, n):
    reference = stats.binomtest(hits, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(hits / n, n) == pytest.approx((reference.low, reference.high), abs=1e-12)


@pytest.mark.parametrize("truth", [0.5, 0.9, 0.98])
@pytest.mark.parametrize("n", [50, 180, 1_000])
def test_the_interval_of_a_share_holds_the_truth_about_19_times_of_20(n, truth):
    """Exactly, by the binomial probabilities of all counts; it swings around the level (Brown, Cai & DasGupta 2001)."""
    counts = np.arange(n + 1)
    is_held = [low <= truth <= high for low, high in (wilson_interval(count / n, n) for count in counts)]
    assert 0.92 < stats.binom.pmf(counts, n, truth)[is_held].sum() < 0.98


def of_mean(values, **options):
    values = np.array(values)
    return bootstrap_interval(lambda counts: counts @ values / len(values), len(values), **options)


def test_the_interval_of_a_mean_is_near_students_for_many_values():
    values = np.random.default_rng(3).normal(0.4, 1, 500)
    reference = stats.t.interval(0.95, 499, values.mean(), stats.sem(values))
    width = reference[1] - reference[0]
    assert of_mean(values) == pytest.approx(reference, abs=0.05 * width)


def test_the_interval_of_a_mean_is_the_same_each_time_and_within_the_values():
    values = [0.0, 0.0, 0.1, 0.9]
    low, high = of_mean(values)
    assert (low, high) == of_mean(values)
    assert min(values) <= low < np.mean(values) < high <= max(values)


def test_more_values_than_are_drawn_at_once_give_an_interval_of_the_same_width():
    values = np.random.default_rng(3).normal(0, 1, 100)
    low, high = of_mean(values)
    assert of_mean(values, drawn_at_once=10) == pytest.approx((low, high), abs=0.05 * (high - low))


def test_an_estimate_is_written_with_its_interval_or_what_would_give_one():
    write = "{:.2f}".format
    assert Estimate(0.5, 0.25, 0.75, 1_200).text(write) == "0.50 (95 % 0.25 to 0.75, n = 1,200)"
    assert Estimate(0.5, note="give more").text(write) == "0.50 (no interval: give more)"
    assert Estimate(0.5, note="give more").text(write, note=False) == Estimate(0.5).text(write) == "0.50"
