"""Successive halving and Hyperband: the brackets, which points go on, and whose models are kept."""

import itertools

import numpy as np
import pytest

from hpo.engine.observers import CheckpointPruner
from hpo.engine.strategies import make_strategy
from hpo.testing.strategies import play
from hpo.trials.fronts import best_first
from hpo.trials.goal import Goal, Limit
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from tests.hpo.engine.made import ended
from tests.studies import shipped

ONE = Goal({"score": "maximize"})


def make(name, **settings):
    given = shipped(name) | {"min_amount": 1, "eta": 3, "counts": "trials"} | settings
    return make_strategy(given, space_from_dict({"x": {"low": 0.0, "high": 1.0}}), 0)


def played(name, num_rounds, goal=ONE, **settings):
    """Return the trials of each round; the larger x is the better, and the smaller its size."""
    history = play(make(name, **settings), num_rounds, lambda p: {"score": p["x"], "size": p["x"] * 97 % 1}, goal)
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


@pytest.mark.parametrize("limits", [(), (Limit("size", 0.5),)])
def test_with_several_metrics_the_first_fronts_go_on_within_the_limits_first(limits):
    goal = Goal({"score": "maximize", "size": "minimize"}, limits)
    rounds = played("successive_halving", 6, goal, max_amount=9)
    for number in (0, 1, 3, 4):
        before, after = rounds[number : number + 2]
        kept = [trial for trial in before if trial.keeps_limits]
        order = [kept[place] for place in best_first(np.array([trial.losses for trial in kept]))] if kept else []
        order += sorted((trial for trial in before if not trial.keeps_limits), key=lambda trial: trial.excess)
        assert [t.continues for t in after] == [t.number for t in order[: len(after)]]


@pytest.mark.parametrize(("every", "goes_on"), [((2, 3), False), ((1, 3), True)])
def test_of_a_rung_whose_trainings_share_no_place_nobody_goes_on(every, goes_on):
    strategy = make("successive_halving", min_amount=3, max_amount=9)
    trials = []
    for number, proposal in enumerate(strategy.propose(History(), [])):
        step = every[number % 2]
        curve = [{"epoch": place, "score": place - number} for place in range(step, 4, step)]
        trials.append(ended(number, proposal.point, 1.0, ONE, curve, amount=3))
    assert strategy.propose(History(trials), [])[0].continues == (0 if goes_on else None)


@pytest.mark.parametrize(
    ("max_amount", "starts"),
    [(9, [(1, 9), (3, 5), (9, 3)]), (10, [(1, 9), (3, 5), (10, 3)]), (15, [(1, 9), (5, 5), (15, 3)])],
)
def test_hyperbands_brackets_take_turns_whatever_the_largest_amount(max_amount, starts):
    rounds = played("hyperband", 14, max_amount=max_amount)
    assert sizes(trials for trials in rounds if trials[0].trained == 0)[:4] == [*starts, starts[0]]


def test_the_kept_models_are_those_of_the_longest_trainings_and_of_the_winner(tmp_path):
    def trained(number, amount, score):
        return ended(number, {"x": number / 10}, score, ONE, amount=amount)

    def kept():
        return sorted(int(path.name.removeprefix("trial_")) for path in tmp_path.iterdir())

    for number in range(4):
        (tmp_path / f"trial_{number:04d}").mkdir()
    pruner = CheckpointPruner(tmp_path, 1, History())
    pruner.trial_finished(trained(3, 1, 1.0))
    pruner.trial_finished(trained(2, 2, 0.9))
    assert kept() == [0, 1, 2]
    pruner.trials_finished([trained(1, 3, 0.8), trained(2, 3, 0.95)])
    assert kept() == [0, 2]
    # Chosen by another rule than the score.
    pruner.trials_finished([trained(0, 3, 0.5)], needed=[0])
    assert kept() == [0, 2]
