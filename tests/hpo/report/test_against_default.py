"""By how much the winner is better than the default: one sentence, in the units of the metric."""

import pytest

from hpo.report.sections.winner import against_default


def said(now, before, direction="maximize", amounts=(None, None), state="complete", number=0, gain=None):
    """The sentence on a winner and a default with these scores by fold."""
    means = [sum(scores) / len(scores) for scores in (now, before)]
    names = [[f"fold_{place}" for place in range(len(scores))] for scores in (now, before)]
    winner = {"number": 7, "score": means[0], "values": dict(zip(names[0], now, strict=True)), "amount": amounts[0]}
    default = {"number": number, "score": means[1], "state": state, "amount": amounts[1]}
    default["values"] = dict(zip(names[1], before, strict=True))
    if gain is not None:
        default["gain"] = dict(zip(("value", "low", "high"), gain, strict=True))
    return against_default(
        {
            "winner": winner,
            "baselines": {"default": default},
            "metric": {"direction": direction, "name": "m"},
            "top": [winner],
        }
    )


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_it_is_the_gain_of_what_is_expected_where_that_is_known(direction):
    sign = 1 if direction == "maximize" else -1
    scores = [sign * 0.9, sign * 0.93], [sign * 0.8, sign * 0.82]
    text = said(*scores, direction, gain=(0.09, 0.0415, 0.1385))
    assert text.startswith("It is expected to be better by 0.0900 (95 % 0.0415 to 0.1385) than the default")
    assert "which may be chance) than the default" in said(*scores, direction, gain=(0.09, -0.01, 0.19))
    assert said(*scores, direction, gain=(-0.01, -0.1, 0.08)).startswith("It is expected to be worse by 0.0100")


def test_one_training_has_no_interval_and_few_digits_are_never_all_zeros():
    assert said([0.9], [0.8]) == (
        "In the search it is better by 0.1000 than the default configuration, which has 0.8000 (trial 0)."
    )
    assert "better by 1.000e-6 than" in said([3e-6], [2e-6])
    assert said([0.8], [0.9]).startswith("In the search it is worse by 0.1000")
    assert said([0.8], [0.8]).startswith("In the search it is as good as the default configuration")


def test_what_was_trained_less_is_not_compared():
    text = said([0.9], [0.8], amounts=(9, 1))
    assert text == (
        "The default configuration was trained to 1 only (trial 0), with 0.8000: the two are not comparable."
    )


def test_where_there_is_no_score_to_compare_with_it_says_so():
    assert said([0.9], [0.9], number=7) == "It is the default configuration: nothing better was found."
    assert said([0.9], [0.9], state="stopped") == "The default configuration (trial 0) was stopped."
    missing = {"missing": "why"}
    for summary in (
        {"winner": missing, "baselines": missing, "top": []},
        {"top": [], "winner": {}, "baselines": {"default": missing}},
    ):
        assert against_default(summary) == "Why."
