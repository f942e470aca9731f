"""Scores that differ have texts that differ, and usual ones keep their four decimals."""

import math

import pytest

from hpo.trials.score_format import score_format, with_spread


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
