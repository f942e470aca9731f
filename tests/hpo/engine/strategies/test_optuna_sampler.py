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
from tests.studies import SPACES, STRATEGIES

CUBE = {name: {"low": 0.0, "high": 1.0} for name in ("x", "y", "z")}
CONDITIONAL = {
    "optimizer": {"choices": ["adam", "sgd"]},
    "momentum": {"low": 0.0, "high": 0.99, "when": {"optimizer": "sgd"}},
    "layers": [1, 2, 3, 4, 5],
    "width": {"low": 8, "high": 512, "integer": True, "log": True},
}
ONE = Goal({"score": "minimize"})
TWO = Goal({"score": "minimize", "cost": "minimize"})
LIMITED = Goal({"score": "minimize"}, (Limit("cost", 0.04),))


def make(name, tree=CUBE, seed=0, **changes):
    return make_strategy(STRATEGIES[name] | changes, space_from_dict(tree), seed)


def bowls(point):
    """What is good for the score is bad for the cost, in one of three dimensions."""
    return {"score": sum((value - 0.8) ** 2 for value in point.values()), "cost": (point["x"] - 0.2) ** 2}


def played(strategy, num_trials, goal=ONE, values_of=bowls):
    """Return so many trials, or a few more to the end of the round; a loss of None is a failure."""
    rounds = math.ceil(num_trials / len(strategy.propose(History(), [])))
    return list(play(strategy, rounds, values_of, goal))


def lengths(point):
    return None if len(str(point)) % 5 == 0 else len(str(point))


def bowls_with_failures(point):
    values = bowls(point)
    return None if values["score"] > 0.9 else values


@pytest.mark.quick
@pytest.mark.slow("gp-*")
@pytest.mark.parametrize(
    ("name", "tree", "goal", "values_of", "starts"),
    [
        *(
            pytest.param(name, tree, ONE, lengths, (13, 22), id=f"{name}-{space}")
            for name in ("tpe", "cma_es", "qmc")
            for space, tree in (("mixed", SPACES["mixed"]), ("conditional", CONDITIONAL))
        ),
        # The first failure and the first beyond a limit come after points from the models.
        *(
            pytest.param(name, CUBE, goal, bowls_with_failures, (4, 9, 14), id=f"{name}-{goals}")
            for name in ("tpe", "gp")
            for goals, goal in (("two", TWO), ("limited", LIMITED))
        ),
    ],
)
def test_a_strategy_that_has_followed_a_study_answers_like_a_new_one(name, tree, goal, values_of, starts):
    changes = {"startup": 3} if values_of is bowls_with_failures else {}
    old = make(name, tree, **changes)
    trials = played(old, starts[-1] + 2, goal, values_of)
    for start in starts:
        asked = History(trials).first(start)
        pending = [] if values_of is lengths else [trial.as_opened for trial in trials[start : start + 2]]
        assert old.propose(asked, pending) == make(name, tree, **changes).propose(History(trials[:start]), pending)


@pytest.mark.parametrize("name", ["tpe", "cma_es"])
def test_another_history_is_not_taken_for_the_remembered_one(name):
    strategy = make(name)
    trials = played(strategy, 20)
    other = [replace(trial, loss=-trial.loss) for trial in trials]
    assert strategy.propose(History(other), []) == make(name).propose(History(other), [])
    assert strategy.propose(History(other), []) != strategy.propose(History(trials), [])


@pytest.mark.parametrize("tree", [*SPACES.values(), CONDITIONAL, {"a": {"choices": [1, True, 0, False, None]}}])
def test_a_value_comes_back_from_its_parameter_and_no_two_have_the_same(tree):
    for dimension in space_from_dict(tree).dimensions:
        parameters = [encoded(dimension, value) for value in dimension.values]
        found = [decoded(dimension, parameter) for parameter in parameters]
        assert [*map(repr, found)] == [*map(repr, dimension.values)]
        assert len({*parameters}) == len(parameters)


def test_whole_numbers_that_optuna_would_list_one_by_one_are_refused():
    vast = {"x": {"low": 1, "high": 10**9, "integer": True}}
    with pytest.raises(SpaceError, match=r"space\.x: must have at most 10,000,000 whole numbers"):
        make("gp", vast)
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


@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_a_space_with_failures_is_searched_to_its_end(name):
    """Here the sampler proposes again what it knows, failed or not."""
    strategy = make(name, {"layers": [1, 2, 3], "norm": {"choices": ["pre", "post"]}}, startup=1)
    trials = played(strategy, 6, values_of=lambda point: None if point["layers"] == 3 else 1.0)
    assert len({trial.key for trial in trials}) == 6


@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_the_first_points_do_not_depend_on_how_many_metrics_there_are(name):
    goals = ((ONE, bowls), (TWO, bowls), (LIMITED, bowls), (TWO, lambda _: None))
    points = [[trial.point for trial in played(make(name), 5, *each)] for each in goals]
    assert points[1:] == points[:1] * 3


@pytest.mark.quick
@pytest.mark.slow("gp-*")
@pytest.mark.parametrize(("name", "num_trials"), [("tpe", 60), ("gp", 25)])
def test_it_finds_a_front_sooner_than_random_search(name, num_trials):
    def dominated(name, seed, count):
        trials = played(make(name, seed=seed), count, TWO)
        return hypervolume(np.array([trial.losses for trial in trials]), 0.5)

    assert dominated(name, 0, num_trials) > max(dominated("random", seed, 5 * num_trials) for seed in range(5))


@pytest.mark.quick
@pytest.mark.slow("gp-*")
@pytest.mark.parametrize(("name", "num_trials"), [("tpe", 50), ("gp", 25)])
def test_it_exceeds_limits_by_less_than_random_search(name, num_trials):
    """At the border, where the best points are, some of its trials exceed the limit by a little."""
    later, at_random = (played(make(each), num_trials, LIMITED)[10:] for each in (name, "random"))
    assert sum(trial.excess for trial in later) < sum(trial.excess for trial in at_random) / 2


def test_only_cma_es_refuses_several_metrics():
    assert [name for name in ("tpe", "gp", "cma_es") if make(name).refuses_several] == ["cma_es"]


def test_cma_es_has_the_population_of_the_tutorial():
    for tree in (CUBE, SPACES["mixed"]):
        assert len(make("cma_es", tree).propose(History(), [])) == 4 + math.floor(3 * math.log(3))
    with pytest.raises(ValueError, match="population"):
        make("cma_es", population=3)


@pytest.mark.parametrize(("sequence", "engine"), [("sobol", qmc.Sobol), ("halton", qmc.Halton)])
def test_the_sequence_is_the_one_of_scipy(sequence, engine):
    points = make("qmc", sequence=sequence, scramble=False, round_size=8).propose(History(), [])
    assert np.allclose([list(point.values()) for point in points], engine(3, scramble=False).random(8))


def test_the_sequence_goes_on_where_it_stopped_whatever_the_rounds():
    short, long = (played(make("qmc", round_size=size), 24) for size in (4, 24))
    assert [trial.key for trial in short] == [trial.key for trial in long]
