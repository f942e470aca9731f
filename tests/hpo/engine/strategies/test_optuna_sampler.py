"""Optuna's samplers as strategies: what they remember, what they learn, and what the sequence is."""

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import qmc

from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.optuna_study import decoded, encoded
from hpo.errors import SpaceError
from hpo.testing.strategies import play
from hpo.trials.fronts import hypervolume
from hpo.trials.goal import Goal, Limit
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from tests.studies import SPACES as ALL_SPACES
from tests.studies import STRATEGIES

CUBE = {name: {"low": 0.0, "high": 1.0} for name in ("x", "y", "z")}
SPACES = ALL_SPACES | {
    "long conditional": {
        "optimizer": {"choices": ["adam", "sgd"]},
        "momentum": {"low": 0.0, "high": 0.99, "when": {"optimizer": "sgd"}},
        "layers": [1, 2, 3, 4, 5],
        "width": {"low": 8, "high": 512, "integer": True, "log": True},
    }
}


def make(name, tree=CUBE, seed=0, **changes):
    return make_strategy(STRATEGIES[name] | changes, space_from_dict(tree), seed)


def test_numbers_that_optuna_would_list_one_by_one_are_refused():
    vast = {"x": {"low": 1, "high": 10**9, "integer": True}}
    with pytest.raises(SpaceError, match=r"space\.x: must have at most 10,000,000 whole numbers"):
        make("gp", vast)
    for name in ("tpe", "cma_es", "qmc"):
        make(name, vast)


def bowl(point):
    return sum((value - 0.8) ** 2 for value in point.values())


def trials_of(strategy, num_trials, loss_of=bowl):
    """Return so many trials, or a few more to the end of the round; a loss of None is a failure."""
    return list(play(strategy, math.ceil(num_trials / len(strategy.propose(History(), []))), loss_of))


def regret(name, seed, num_trials):
    return min(trial.loss for trial in trials_of(make(name, seed=seed), num_trials))


@pytest.mark.quick("mixed-*")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["tpe", "cma_es", "qmc"])
@pytest.mark.parametrize("space", ["mixed", "long conditional"])
def test_a_strategy_that_has_seen_the_study_grow_answers_like_a_new_one(name, space):
    """What was told is remembered on the instance; it must not show."""
    old = make(name, SPACES[space])
    trials = trials_of(old, 30, loss_of=lambda p: None if len(str(p)) % 5 == 0 else len(str(p)))
    starts = [trial.number for trial in trials[13:] if trial.round > trials[trial.number - 1].round]
    assert starts
    history = History(trials)
    for start in starts[-2:]:
        assert old.propose(history.first(start), []) == make(name, SPACES[space]).propose(History(trials[:start]), [])


@pytest.mark.parametrize("name", ["tpe", "cma_es"])
def test_another_history_is_not_taken_for_the_remembered_one(name):
    strategy = make(name)
    trials = trials_of(strategy, 20)
    other = [replace(trial, loss=-trial.loss) for trial in trials]
    assert strategy.propose(History(other), []) == make(name).propose(History(other), [])
    assert strategy.propose(History(other), []) != strategy.propose(History(trials), [])


@pytest.mark.parametrize("space", SPACES)
def test_a_value_comes_back_from_its_parameter(space):
    for dimension in space_from_dict(SPACES[space]).dimensions:
        for value in dimension.values:
            assert decoded(dimension, encoded(dimension, value)) == value


def test_true_and_one_are_different_choices():
    dimension = space_from_dict({"a": {"choices": [1, True, 0, False, None]}}).dimensions[0]
    assert [encoded(dimension, value) for value in dimension.values] == [0, 1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tpe", "cma_es"])
def test_learns_where_the_bottom_of_a_bowl_is(name):
    learnt = statistics.median(regret(name, seed, 60) for seed in range(5))
    assert learnt < statistics.median(regret("random", seed, 60) for seed in range(5)) / 2


@pytest.mark.slow
def test_the_gaussian_process_finds_the_bottom_of_a_bowl():
    assert regret("gp", 0, 31) < min(regret("random", seed, 31) for seed in range(5))


def test_tpe_keeps_away_from_what_failed():
    trials = trials_of(make("tpe"), 60, loss_of=lambda point: None if point["x"] > 0.5 else 1.0 + point["y"])
    later = [trial.point["x"] for trial in trials[20:]]
    assert sum(x > 0.5 for x in later) < len(later) / 4


@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_a_space_with_failures_is_searched_to_its_end(name):
    """Here the sampler proposes again what it knows, failed or not, and is told once more."""
    tree = {"layers": [1, 2, 3], "norm": {"choices": ["pre", "post"]}}
    trials = trials_of(make(name, tree, startup=1), 6, lambda point: None if point["layers"] == 3 else 1.0)
    assert len({trial.key for trial in trials}) == 6


TWO = Goal({"score": "minimize", "cost": "minimize"})
LIMITED = Goal({"score": "minimize"}, (Limit("cost", 0.04),))


def two_bowls(point):
    """What is good for the score is bad for the cost, in one of three dimensions."""
    return {"score": bowl(point), "cost": (point["x"] - 0.2) ** 2}


def played(name, num_trials, goal, values_of=two_bowls, seed=0, **changes):
    return list(play(make(name, seed=seed, **changes), num_trials, values_of, goal))


@pytest.mark.quick("tpe")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_the_first_points_do_not_depend_on_how_many_metrics_there_are(name):
    points = [
        [trial.point for trial in played(name, 5, goal, values_of)]
        for goal, values_of in ((TWO, two_bowls), (LIMITED, two_bowls), (TWO, lambda _: None))
    ]
    assert points[0] == points[1] == points[2] == [trial.point for trial in trials_of(make(name), 5)]


@pytest.mark.quick("tpe-two*")
@pytest.mark.slow
@pytest.mark.parametrize("goal", [pytest.param(TWO, id="two"), pytest.param(LIMITED, id="limited")])
@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_with_several_metrics_one_that_has_seen_the_study_grow_answers_like_a_new_one(name, goal):
    """The first failure and the first beyond a limit come after points from the models."""

    def values_of(point):
        values = two_bowls(point)
        return None if values["score"] > 0.9 else values

    old = make(name, startup=3)
    trials = list(play(old, 14, values_of, goal))
    for count in (4, 9, 14):
        pending = [trial.as_opened for trial in trials[count : count + 2]]
        asked = History(trials).first(count)
        assert old.propose(asked, pending) == make(name, startup=3).propose(History(trials[:count]), pending)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "num_trials"), [("tpe", 60), ("gp", 25)])
def test_finds_a_front(name, num_trials):
    def dominated(name, seed):
        return hypervolume(np.array([trial.losses for trial in played(name, num_trials, TWO, seed=seed)]), 0.5)

    assert dominated(name, 0) > max(dominated("random", seed) for seed in range(5))


@pytest.mark.quick("tpe-*")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "num_trials"), [("tpe", 50), ("gp", 25)])
def test_keeps_within_limits(name, num_trials):
    later = played(name, num_trials, LIMITED)[10:]
    at_random = played("random", num_trials, LIMITED)[10:]
    assert sum(trial.excess > 0 for trial in later) < sum(trial.excess > 0 for trial in at_random) / 2


def test_only_cma_es_refuses_several_metrics():
    reasons = {name: make(name).refuses_several for name in ("tpe", "gp", "cma_es")}
    assert [name for name, reason in reasons.items() if reason] == ["cma_es"]


def test_cma_es_has_the_population_of_the_tutorial():
    assert len(make("cma_es").propose(History(), [])) == 4 + math.floor(3 * math.log(3))
    assert len(make("cma_es", SPACES["mixed"]).propose(History(), [])) == 4 + math.floor(3 * math.log(3))
    with pytest.raises(ValueError, match="population"):
        make("cma_es", population=3)


@pytest.mark.parametrize(("sequence", "engine"), [("sobol", qmc.Sobol), ("halton", qmc.Halton)])
def test_the_sequence_is_the_one_of_scipy(sequence, engine):
    points = make("qmc", sequence=sequence, scramble=False, round_size=8).propose(History(), [])
    assert np.allclose([list(point.values()) for point in points], engine(3, scramble=False).random(8))


def test_the_sequence_goes_on_where_it_stopped_whatever_the_rounds():
    short, long = (trials_of(make("qmc", round_size=size), 24) for size in (4, 24))
    assert [trial.key for trial in short] == [trial.key for trial in long]
