"""What strategies promise with several metrics and with limits."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.engine.schedule.rules import Rules
from hpo.engine.strategies import make_strategy
from hpo.testing.law import Disturbance, check_free_order, check_law
from hpo.testing.simulated_tasks import World, facts, run
from hpo.trials.goal import Goal, Limit
from hpo.trials.space.reader import space_from_dict
from tests.studies import SPACES, STRATEGIES

NAMES = ["asha", "successive_halving", "hyperband", "evolutionary", "shifting_window", "random", "qmc", "grid"]
TWO = {"score": "minimize", "size": "minimize"}
LIMIT = (Limit("size", 0.6),)
GOALS = st.sampled_from([Goal(TWO), Goal(TWO, LIMIT), Goal({"score": "minimize"}, LIMIT)])
WORLDS = st.builds(
    World, seed=st.integers(0, 999), folds=st.integers(1, 2), failing=st.sampled_from([0, 0.4]), goal=GOALS
)


def make(name):
    return make_strategy(STRATEGIES[name], space_from_dict(SPACES["mixed"]), 0)


class Constant(World):
    """A world in which every other metric than the score is 1 everywhere."""

    def outcome(self, trial, index):
        outcome = super().outcome(trial, index)
        others = dict.fromkeys(self.goal.names[1:], 1.0)
        return outcome if outcome.error else replace(outcome, metrics={**outcome.metrics, **others})


@pytest.mark.quick("asha", "successive_halving", "evolutionary")
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=3)
@given(seed=st.integers(0, 999), failing=st.sampled_from([0, 0.4]), lanes=st.integers(1, 5))
def test_two_metrics_of_which_one_is_constant_give_the_trials_of_one(name, seed, failing, lanes):
    def rules(tasks_of, cost_of):
        return Rules(strategy=make(name), tasks_of=tasks_of, cost_of=cost_of, lanes=lanes)

    goals = [Goal({"score": "minimize"}), Goal(TWO), Goal({"score": "minimize"}, (Limit("size", 1.0),))]
    one, *others = (facts(run(Constant(seed, failing=failing, goal=goal), rules, 40)) for goal in goals)
    assert others == [one, one]


@pytest.mark.quick("asha")
@pytest.mark.nightly("gp")
@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "tpe", "gp"])
@settings(max_examples=4)
@given(
    world=WORLDS, lanes=st.integers(1, 5), slots=st.integers(2, 6), orders=st.tuples(st.integers(), st.integers()),
    budget=st.integers(1, 16), dies_after=st.integers(0, 60),
)  # fmt: skip
def test_the_law_holds_with_several_metrics_and_limits(name, world, lanes, slots, orders, budget, dies_after):
    check_law(lambda: make(name), world, Disturbance(slots, orders, dies_after, budget), lanes)
    check_free_order(lambda: make(name), world, Disturbance(slots, orders, dies_after))
