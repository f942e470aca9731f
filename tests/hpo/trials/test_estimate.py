"""Estimates with two kinds of intervals, against references; scores that differ have texts that differ."""

import math

import numpy as np
import pytest
from scipy import stats

from hpo.trials.estimate import bootstrap_interval, wilson_interval
from hpo.trials.score_format import score_format, with_spread


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 7), (6, 6), (21, 30), (178, 180), (180, 180), (5_000, 10_000)])
def test_the_interval_of_a_share_is_wilsons(hits, n):
    reference = stats.binomtest(hits, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(hits / n, n) == pytest.approx((reference.low, reference.high), abs=1e-12)


def of_mean(values, **options):
    values = np.array(values)
    return bootstrap_interval(lambda counts: counts @ values / len(values), len(values), **options)


def test_the_interval_of_a_mean_is_near_students_for_many_values():
    values = np.random.default_rng(3).normal(0.4, 1, 500)
    reference = stats.t.interval(0.95, 499, values.mean(), stats.sem(values))
    assert of_mean(values) == pytest.approx(reference, abs=0.05 * (reference[1] - reference[0]))


def test_the_interval_of_a_mean_is_the_same_each_time_and_within_the_values():
    low, high = of_mean([0.0, 0.0, 0.1, 0.9])
    assert (low, high) == of_mean([0.0, 0.0, 0.1, 0.9])
    assert 0.0 <= low < 0.25 < high <= 0.9


def test_more_values_than_are_drawn_at_once_give_an_interval_of_the_same_width():
    values = np.random.default_rng(3).normal(0, 1, 100)
    low, high = of_mean(values)
    assert of_mean(values, drawn_at_once=10) == pytest.approx((low, high), abs=0.05 * (high - low))
    with pytest.raises(ValueError, match=r"must return 10 numbers, one per resample, but returned .* \(1,\)"):
        bootstrap_interval(lambda counts: [0.5], 100, drawn_at_once=1_000)


@pytest.mark.parametrize(("scores", "texts"), [
    ([0.98024, 0.9765, 0.2], ["0.9802", "0.9765", "0.2000"]), ([2e-9, 3e-9], ["2.000e-9", "3.000e-9"]),
    # A diverged trial takes no digits from the others.
    ([0.15123, 0.15124, 0.15125, 1e12], ["0.151230", "0.151240", "0.151250", "1.0000000e12"]),
    ([-3e-9, -2e-9, None, math.nan], ["-3.000e-9", "-2.000e-9"]), ([0.0], ["0.0000"]),
    ([math.inf, 0.5], ["inf", "0.5000"]),
])  # fmt: skip
def test_scores_that_differ_have_texts_that_differ(scores, texts):
    assert [score_format(scores)(score) for score in scores if score is not None and not math.isnan(score)] == texts


@pytest.mark.parametrize(("scores", "spread", "texts"), [
    ([0.9557, 0.9], 0.00486, ("0.9557", "0.0049")), ([0.9557, 0.9], 0.0000123, ("0.95570", "0.00001")),
    ([2e-9, 1e-9], 3.2e-10, ("2.000e-9", "0.320e-9")), ([0.9557, 0.9], None, ("0.9557", "")),
])  # fmt: skip
def test_a_mean_and_its_spread_have_as_many_decimals(scores, spread, texts):
    assert with_spread(score_format(scores), scores[0], spread) == texts
