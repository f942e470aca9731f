"""Expected validation performance against its definitions, exact fractions and simulation."""

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from hpo.report.sections.curves import describe_expected, expected_performance, unbiased_weights

SCORES = [0.3, 0.9, 0.1, 0.7, 0.5, 0.55, 0.2, 0.8]


@pytest.mark.parametrize(
    ("estimator", "samples"),
    [("biased", lambda n: product(SCORES, repeat=n)), ("unbiased", lambda n: combinations(SCORES, n))],
)
def test_it_is_the_mean_of_the_best_over_all_samples(estimator, samples):
    curve = expected_performance(SCORES, "maximize", estimator)
    assert curve["budgets"] == [1, 2, 3, 4]
    for n, mean, spread in zip(curve["budgets"], curve["means"], curve["spreads"], strict=True):
        best = [max(sample) for sample in samples(n)]
        assert mean == pytest.approx(np.mean(best))
        assert spread == pytest.approx(np.std(best))
    mirrored = expected_performance([-score for score in SCORES], "minimize", estimator)
    assert mirrored["means"] == pytest.approx([-mean for mean in curve["means"]])


@pytest.mark.parametrize("n", [1, 7, 500, 5000])
def test_ten_thousand_trials_are_no_trouble(n):
    weights = unbiased_weights(10_000, n)
    assert weights.sum() == pytest.approx(1.0, rel=1e-10)
    for i in (n, (n + 10_000) // 2, 10_000):
        exact = Fraction(comb(i - 1, n - 1), comb(10_000, n))
        assert weights[i - 1] == pytest.approx(float(exact), rel=1e-9, abs=1e-300)


def test_it_is_refused_where_draws_are_not_independent():
    for strategy in ("grid", "shifting_window", "evolutionary", "tpe", "hyperband"):
        assert "independent" in describe_expected(strategy, SCORES, "maximize", False)["missing"]
    assert (
        "chosen trials of the study that it extends" in describe_expected("random", SCORES, "maximize", True)["missing"]
    )
    assert "fewer than two" in describe_expected("random", [0.5], "maximize", False)["missing"]
    assert set(describe_expected("random", SCORES, "maximize", False)) == {"biased", "unbiased"}
