"""What every strategy promises, on every kind of space. A new strategy is one line in tests.studies.STRATEGIES."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpo.engine.schedule.stopping import StopRule
from hpo.engine.strategies import STRATEGIES as REGISTERED
from hpo.engine.strategies import make_strategy, type_of
from hpo.errors import ConfigError
from hpo.testing import check_strategy
from hpo.testing.law import Disturbance, check_asking, check_free_order, check_law, check_user_actions
from hpo.testing.simulated_tasks import World
from hpo.testing.strategies import play
from hpo.trials.goal import Goal, Limit
from hpo.trials.space.reader import space_from_dict
from tests.studies import SPACES, STRATEGIES, refuses, searched_by

ONE = Goal({"score": "minimize"})
# A point of the Gaussian process takes a tenth of a second and more: what it keeps is in the first test.
QUICK = [name for name in STRATEGIES if name != "gp"]
# All of `mixed`, `continuous` and `all ordered` takes the Gaussian process a minute.
LEFT_OUT = {("grid", "continuous"), ("shifting_window_literal", "one point")}
LEFT_OUT |= {("gp", space) for space in ("mixed", "continuous", "all ordered")}
CASES = [(name, space) for name in STRATEGIES for space in SPACES if (name, space) not in LEFT_OUT]


def make(name, space_name, seed=0):
    return make_strategy(STRATEGIES[name], space_from_dict(searched_by(name, SPACES[space_name])), seed)


def test_every_registered_strategy_is_under_this_contract():
    assert {settings["name"] for settings in STRATEGIES.values()} == set(REGISTERED)


@pytest.mark.quick("*-one point", *(f"{name}-conditional" for name in QUICK))
@pytest.mark.slow
@pytest.mark.nightly("*-all ordered", "*-all unordered")
@pytest.mark.parametrize(("name", "space"), [pytest.param(*case, id="-".join(case)) for case in CASES])
def test_it_keeps_what_is_asked_of_every_strategy(name, space):
    check_strategy(STRATEGIES[name], {space: searched_by(name, SPACES[space])})


STOP_RULES = st.sampled_from([None, StopRule(1, ONE)])
WORLDS = {"seed": st.integers(0, 999), "folds": st.integers(1, 2), "failing": st.sampled_from([0, 0.4])}
ANY_WORLD = st.builds(World, **WORLDS, says_goes_on=st.booleans())
ENDS = {"dies_after": st.integers(0, 60), "budget": st.integers(1, 16)}
DISTURBED = st.builds(Disturbance, slots=st.integers(2, 6), orders=st.tuples(st.integers(), st.integers()), **ENDS)
# A retry that is asked for while the budget is used up.
USED_UP = Disturbance(slots=2, orders=(30, 0), dies_after=0, budget=3)
SEARCHES = given(world=ANY_WORLD, lanes=st.integers(1, 5), disturbed=DISTURBED, stop_rule=STOP_RULES)


@pytest.mark.slow("tpe", "cma_es")
@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=6)
@SEARCHES
def test_the_law(name, world, lanes, disturbed, stop_rule):
    """The same trials for any workers, order and crash, and a raised budget; in free order, from what each one knew."""
    check_law(lambda: make(name, "mixed"), world, disturbed, lanes, stop_rule)
    check_free_order(lambda: make(name, "mixed"), world, disturbed, stop_rule)


def large_or_small(seed):
    """Return a space; the small one is exhausted before the budget, and what users give then is all that is tried."""
    return "all unordered" if seed % 2 else "mixed"


@pytest.mark.quick("random", "evolutionary", "asha")
@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=6)
@SEARCHES
@example(world=World(seed=622, failing=0.4, says_goes_on=False), lanes=3, disturbed=USED_UP, stop_rule=None)
def test_the_law_holds_where_users_act(name, world, lanes, disturbed, stop_rule):
    check_user_actions(lambda: make(name, large_or_small(world.seed)), world, disturbed, lanes, stop_rule)


@pytest.mark.quick("evolutionary", "asha", "hyperband")
@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=6)
@given(seed=st.integers(0, 999), failing=st.sampled_from([0, 0.4]), budget=st.integers(1, 16), stop_rule=STOP_RULES)
def test_the_trials_of_ask_and_tell_follow_from_its_calls(name, seed, failing, budget, stop_rule):
    check_asking(lambda: make(name, large_or_small(seed)), World(seed, failing=failing), seed, budget, stop_rule)


@pytest.mark.parametrize("name", ["asha", "successive_halving", "evolutionary", "shifting_window", "random"])
def test_two_metrics_of_which_one_is_constant_give_the_trials_of_one(name):
    def values_of(point):
        return None if len(str(point)) % 5 == 0 else {"score": float(len(str(point))), "size": 1.0}

    goals = (ONE, Goal(TWO), Goal({"score": "minimize"}, (Limit("size", 1.0),)))
    one, *others = [[t.key for t in play(make(name, "mixed"), 6, values_of, goal)] for goal in goals]
    assert others == [one, one]


OF_SEVERAL = ["asha", "successive_halving", "hyperband", "evolutionary", "shifting_window", "random", "qmc", "grid"]
TWO, LIMIT = {"score": "minimize", "size": "minimize"}, (Limit("size", 0.6),)
GOALS = st.sampled_from([Goal(TWO), Goal(TWO, LIMIT), Goal({"score": "minimize"}, LIMIT)])


@pytest.mark.slow("tpe")
@pytest.mark.parametrize("name", [*OF_SEVERAL, "tpe"])
@settings(max_examples=4)
@given(world=st.builds(World, **WORLDS, goal=GOALS), lanes=st.integers(1, 5), disturbed=DISTURBED)
def test_the_law_holds_with_several_metrics_and_limits(name, world, lanes, disturbed):
    check_law(lambda: make(name, "mixed"), world, disturbed, lanes)
    check_free_order(lambda: make(name, "mixed"), world, disturbed)


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(ValueError, match="populatoin"):
        make_strategy(STRATEGIES[name] | {"populatoin": 3}, space_from_dict(SPACES["mixed"]), 0)


def test_what_is_no_strategy_is_refused():
    refuses(ConfigError, "a:int is no strategy: a strategy is a class with propose, Settings, ", type_of, int, "a:int")
    with pytest.raises(ConfigError, match=r"must be one of grid, random, .* given 'gird'; did you mean 'grid'"):
        make_strategy({"name": "gird"}, space_from_dict(SPACES["mixed"]), 0)
