"""Optuna's samplers as strategies: what they learn, and what the sequence is."""

import math
import statistics

import pytest

from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.optuna_study import decoded, encoded
from hpo.errors import SpaceError
from hpo.testing.strategies import play
from hpo.trials.goal import Goal, Limit
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from tests.studies import SPACES, STRATEGIES, refuses

CUBE = {name: {"low": 0.0, "high": 1.0} for name in ("x", "y", "z")}
ONE, LIMITED = Goal({"score": "minimize"}), Goal({"score": "minimize"}, (Limit("cost", 0.04),))


def make(name, tree=CUBE, seed=0, **changes):
    return make_strategy(STRATEGIES[name] | changes, space_from_dict(tree), seed)


def bowls(point):
    """What is good for the score is bad for the cost, in one of three dimensions."""
    return {"score": sum((value - 0.8) ** 2 for value in point.values()), "cost": (point["x"] - 0.2) ** 2}


def played(strategy, num_trials, goal=ONE, values_of=bowls):
    """Return so many trials, or a few more to the end of the round; a loss of None is a failure."""
    return list(play(strategy, math.ceil(num_trials / len(strategy.propose(History(), []))), values_of, goal))


@pytest.mark.parametrize("tree", [*SPACES.values(), {"a": {"choices": [1, True, 0, False, None]}}])
def test_a_value_comes_back_from_its_parameter_and_no_two_have_the_same(tree):
    for dimension in space_from_dict(tree).dimensions:
        parameters = [encoded(dimension, value) for value in dimension.values]
        found = [decoded(dimension, parameter) for parameter in parameters]
        assert ([*map(repr, found)], len({*parameters})) == ([*map(repr, dimension.values)], len(parameters))


def test_whole_numbers_that_optuna_would_list_one_by_one_are_refused():
    vast = {"x": {"low": 1, "high": 10**9, "integer": True}}
    refuses(SpaceError, r"space\.x: must have at most 10,000,000 whole numbers", make, "gp", vast)
    for name in ("tpe", "cma_es", "qmc"):
        make(name, vast)


@pytest.mark.slow("gp-31-1-1", "tpe-60-5-2")
@pytest.mark.parametrize(("name", "num_trials", "seeds", "factor"), [
    ("tpe", 60, 5, 2), ("cma_es", 60, 5, 2), ("gp", 31, 1, 1),
])  # fmt: skip
def test_it_finds_the_bottom_of_a_bowl_sooner_than_random_search(name, num_trials, seeds, factor):
    def regret(name, seed):
        return min(trial.loss for trial in played(make(name, seed=seed), num_trials))

    found = statistics.median(regret(name, seed) for seed in range(seeds))
    assert found < statistics.median(regret("random", seed) for seed in range(5)) / factor


def test_tpe_keeps_away_from_what_failed():
    trials = played(make("tpe"), 60, values_of=lambda point: None if point["x"] > 0.5 else 1.0 + point["y"])
    assert sum(trial.point["x"] > 0.5 for trial in trials[20:]) < len(trials[20:]) / 4


@pytest.mark.quick
@pytest.mark.slow("gp-*")
@pytest.mark.parametrize(("name", "num_trials"), [("tpe", 50), ("gp", 25)])
def test_it_exceeds_limits_by_less_than_random_search(name, num_trials):
    later, at_random = (played(make(each), num_trials, LIMITED)[10:] for each in (name, "random"))
    assert sum(trial.excess for trial in later) < sum(trial.excess for trial in at_random) / 2


def test_only_cma_es_refuses_several_metrics():
    assert [name for name in ("tpe", "gp", "cma_es") if make(name).refuses_several] == ["cma_es"]


def test_the_sequence_goes_on_where_it_stopped_whatever_the_rounds():
    short, long = (played(make("qmc", round_size=size), 24) for size in (4, 24))
    assert [trial.key for trial in short] == [trial.key for trial in long]
