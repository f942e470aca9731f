"""Successive halving and Hyperband: the brackets, and which points go on."""

import itertools

import pytest

from hpo.engine.strategies import make_strategy
from hpo.testing.strategies import play
from hpo.trials.goal import Goal
from hpo.trials.space.reader import space_from_dict
from tests.studies import shipped


def make(name, **settings):
    given = shipped(name) | {"min_amount": 1, "eta": 3, "counts": "trials"} | settings
    return make_strategy(given, space_from_dict({"x": {"low": 0.0, "high": 1.0}}), 0)


def played(name, num_rounds, **settings):
    """Return the trials of each round; the larger x is the better."""
    history = play(make(name, **settings), num_rounds, lambda point: point["x"], Goal({"score": "maximize"}))
    return [[trial for trial in history if trial.round == number] for number in range(num_rounds)]


def sizes(rounds):
    return [(trials[0].amount, len(trials)) for trials in rounds]


@pytest.mark.parametrize(
    ("least", "most", "amounts"),
    [
        (1, 9, [1, 3, 9]),
        (7, 201, [7, 22, 67, 201]),
        (2, 20, [2, 6, 20]),
        (1, 100, [1, 3, 11, 33, 100]),
        (4, 17, [4, 17]),
        (2, 5, [2, 5]),
    ],
)
def test_rungs_lie_about_eta_apart_and_each_drops_its_share_of_the_points(least, most, amounts):
    settings = make("successive_halving", min_amount=least, max_amount=most).settings
    halvings = settings.num_halvings
    assert (settings.amounts(halvings), settings.first_points(halvings)) == (amounts, 3 ** (len(amounts) - 1))
    assert settings.survivors(halvings, halvings) == 1


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, [(1, 9), (3, 3), (9, 1)] * 2), ({"points": 7, "keep": 2}, [(1, 7), (9, 2), (1, 7), (9, 2)])],
)
def test_the_best_few_of_each_rung_go_on_from_where_they_stopped(settings, expected):
    rounds = played("successive_halving", len(expected), max_amount=9, **settings)
    assert sizes(rounds) == expected
    for before, after in itertools.pairwise(rounds):
        best = sorted(before, key=lambda trial: -trial.score)[: len(after)]
        goes_on = after[0].amount > before[0].amount
        expected = [(trial.number, trial.amount) if goes_on else (None, 0) for trial in best]
        assert [(trial.continues, trial.trained) for trial in after][: len(best)] == expected


def test_keeping_as_many_as_there_are_points_is_refused():
    with pytest.raises(ValueError, match="must be below the number of points"):
        make("successive_halving", max_amount=9, points=3, keep=3)


@pytest.mark.parametrize(
    ("max_amount", "starts"),
    [(9, [(1, 9), (3, 5), (9, 3)]), (10, [(1, 9), (3, 5), (10, 3)]), (15, [(1, 9), (5, 5), (15, 3)])],
)
def test_hyperbands_brackets_take_turns_whatever_the_largest_amount(max_amount, starts):
    rounds = played("hyperband", 14, max_amount=max_amount)
    assert sizes(trials for trials in rounds if trials[0].trained == 0)[:4] == [*starts, starts[0]]
