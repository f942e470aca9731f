"""Scores that differ have texts that differ, and usual ones keep their four decimals."""

import math

import pytest

from hpo.trials.score_format import score_format, with_spread


@pytest.mark.parametrize(
    ("scores", "texts"),
    [
        ([0.98024, 0.9765, 0.2], ["0.9802", "0.9765", "0.2000"]),
        ([0.9802], ["0.9802"]),
        ([1.25, 2.0], ["1.2500", "2.0000"]),
        ([2e-9, 3e-9, 4e-9, 5e-9], ["2.000e-9", "3.000e-9", "4.000e-9", "5.000e-9"]),
        ([2e-9], ["2.000e-9"]),
        ([1.23e9, 1.5e9], ["1.2300e9", "1.5000e9"]),
        ([1e9, 1e9 + 1], ["1.000000000e9", "1.000000001e9"]),
        ([0.980211, 0.980212, 0.980213], ["0.9802110", "0.9802120", "0.9802130"]),
        ([3025.7, 2500.1], ["3025.7", "2500.1"]),
        ([123.456], ["123.5"]),
        # A diverged trial takes no digits from the others.
        ([0.15123, 0.15124, 0.15125, 1e12], ["0.151230", "0.151240", "0.151250", "1.0000000e12"]),
        ([0.5, 2e-6], ["0.5000", "2.00e-6"]),
        ([-3e-9, -2e-9, None, math.nan], ["-3.000e-9", "-2.000e-9"]),
        ([0.0], ["0.0000"]),
        ([], []),
    ],
)
def test_scores_that_differ_have_texts_that_differ(scores, texts):
    text = score_format(scores)
    assert [text(score) for score in scores if score is not None and not math.isnan(score)] == texts


def test_what_has_no_value_is_written_as_such():
    assert score_format([0.5])(math.inf) == "inf"


@pytest.mark.parametrize(
    ("scores", "spread", "texts"),
    [
        ([0.9557, 0.9], 0.00486, ("0.9557", "0.0049")),
        ([0.9557, 0.9], 0.0000123, ("0.95570", "0.00001")),
        ([2e-9, 1e-9], 3.2e-10, ("2.000e-9", "0.320e-9")),
        ([3025.7, 2500.1], 17.123, ("3025.7", "17.1")),
        ([0.9557, 0.9], 0.0, ("0.9557", "0.0000")),
        ([0.9557, 0.9], None, ("0.9557", "")),
    ],
)
def test_a_mean_and_its_spread_have_as_many_decimals(scores, spread, texts):
    assert with_spread(score_format(scores), scores[0], spread) == texts
