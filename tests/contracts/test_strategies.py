"""What every strategy promises, on every kind of space. A new strategy is one line in tests.studies.STRATEGIES."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpo.engine.schedule.proposer import propose
from hpo.engine.schedule.stopping import StopRule
from hpo.engine.strategies import STRATEGIES as REGISTERED
from hpo.engine.strategies import make_strategy
from hpo.testing import check_strategy
from hpo.testing.law import Disturbance, check_asking, check_free_order, check_law, check_user_actions
from hpo.testing.simulated_tasks import World, facts, run
from hpo.testing.strategies import distinct, play
from hpo.trials.goal import Goal, Limit
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import point_key
from tests.hpo.engine.made import rules_of
from tests.studies import REPOSITORY, SPACES, STRATEGIES, environment, searched_by

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
@pytest.mark.parametrize(("name", "space"), [pytest.param(*case, id="-".join(case)) for case in CASES])
def test_it_keeps_what_is_asked_of_every_strategy(name, space):
    check_strategy(STRATEGIES[name], {space: searched_by(name, SPACES[space])})


STOP_RULES = st.sampled_from([None, StopRule(1, ONE)])
WORLDS = {"seed": st.integers(0, 999), "folds": st.integers(1, 2), "failing": st.sampled_from([0, 0.4])}
ANY_WORLD = st.builds(World, **WORLDS, says_goes_on=st.booleans())
DISTURBED = st.builds(
    Disturbance,
    slots=st.integers(2, 6),
    orders=st.tuples(st.integers(), st.integers()),
    dies_after=st.integers(0, 60),
    budget=st.integers(1, 16),
)
SEARCHES = given(world=ANY_WORLD, lanes=st.integers(1, 5), disturbed=DISTURBED, stop_rule=STOP_RULES)


@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=6)
@SEARCHES
def test_the_law(name, world, lanes, disturbed, stop_rule):
    """The same trials for any number of workers, in any order, after a crash, and under a budget that is raised."""
    check_law(lambda: make(name, "mixed"), world, disturbed, lanes, stop_rule)


@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=4)
@given(world=ANY_WORLD, disturbed=DISTURBED, stop_rule=STOP_RULES)
def test_the_free_order_is_repeated_from_what_was_known(name, world, disturbed, stop_rule):
    """The record says what each proposal knew; the same knowledge gives the same trials, whatever finishes first."""
    check_free_order(lambda: make(name, "mixed"), world, disturbed, stop_rule)


def large_or_small(seed):
    """Return a space; the small one is exhausted before the budget, and what users give then is all that is tried."""
    return "all unordered" if seed % 2 else "mixed"


@pytest.mark.quick("random", "evolutionary", "asha")
@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=6)
@SEARCHES
# A retry that is asked for while the budget is used up.
@example(
    world=World(seed=622, failing=0.4, says_goes_on=False),
    lanes=3,
    disturbed=Disturbance(slots=2, orders=(30, 0), dies_after=0, budget=3),
    stop_rule=None,
)
def test_the_law_holds_where_users_act(name, world, lanes, disturbed, stop_rule):
    check_user_actions(lambda: make(name, large_or_small(world.seed)), world, disturbed, lanes, stop_rule)


@pytest.mark.quick("evolutionary", "asha", "hyperband")
@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=6)
@given(seed=st.integers(0, 999), failing=st.sampled_from([0, 0.4]), budget=st.integers(1, 16), stop_rule=STOP_RULES)
def test_the_trials_of_ask_and_tell_follow_from_its_calls(name, seed, failing, budget, stop_rule):
    """The same questions and answers give the same trials, in one session and in many."""
    check_asking(lambda: make(name, large_or_small(seed)), World(seed, failing=failing), seed, budget, stop_rule)


OF_SEVERAL = ["asha", "successive_halving", "hyperband", "evolutionary", "shifting_window", "random", "qmc", "grid"]
TWO, LIMIT = {"score": "minimize", "size": "minimize"}, (Limit("size", 0.6),)
GOALS = st.sampled_from([Goal(TWO), Goal(TWO, LIMIT), Goal({"score": "minimize"}, LIMIT)])


class Constant(World):
    """A world in which every other metric than the score is 1 everywhere."""

    def outcome(self, trial, index):
        outcome = super().outcome(trial, index)
        others = dict.fromkeys(self.goal.names[1:], 1.0)
        return outcome if outcome.error else replace(outcome, metrics={**outcome.metrics, **others})


@pytest.mark.parametrize("name", OF_SEVERAL)
@settings(max_examples=3)
@given(seed=st.integers(0, 999), failing=st.sampled_from([0, 0.4]), lanes=st.integers(1, 5))
def test_two_metrics_of_which_one_is_constant_give_the_trials_of_one(name, seed, failing, lanes):
    def trials(goal):
        return facts(run(Constant(seed, failing=failing, goal=goal), rules_of(make(name, "mixed"), lanes), 40))

    assert trials(ONE) == trials(Goal(TWO)) == trials(Goal({"score": "minimize"}, (Limit("size", 1.0),)))


@pytest.mark.slow("tpe")
@pytest.mark.parametrize("name", [*OF_SEVERAL, "tpe"])
@settings(max_examples=4)
@given(world=st.builds(World, **WORLDS, goal=GOALS), lanes=st.integers(1, 5), disturbed=DISTURBED)
def test_the_law_holds_with_several_metrics_and_limits(name, world, lanes, disturbed):
    check_law(lambda: make(name, "mixed"), world, disturbed, lanes)
    check_free_order(lambda: make(name, "mixed"), world, disturbed)


READER = """
import json, sys
from tests.contracts.test_strategies import make, next_points
from hpo.trials.history import History
from hpo.trials.trial import Trial
for name, trials in json.load(sys.stdin).items():
    print(json.dumps(next_points(name, History(Trial(**fields) for fields in trials))))
"""


def next_points(name, history):
    return [vars(proposal) for proposal in propose(make(name, "mixed"), history)]


@pytest.mark.slow
def test_a_fresh_process_proposes_the_same():
    histories = {name: play(make(name, "mixed"), 2) for name in STRATEGIES}
    names = "number", "round", "state", "score", "loss", "amount", "trained"
    trials = {
        name: [{each: getattr(trial, each) for each in names} | {"point": dict(trial.point)} for trial in history]
        for name, history in histories.items()
    }
    given = {"input": json.dumps(trials), "cwd": REPOSITORY, "env": environment() | {"PYTHONHASHSEED": "7", "PATH": ""}}
    done = subprocess.run([sys.executable, "-c", READER], **given, capture_output=True, text=True, check=True)
    expected = [json.loads(json.dumps(next_points(name, history))) for name, history in histories.items()]
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(ValueError, match="populatoin"):
        make_strategy(STRATEGIES[name] | {"populatoin": 3}, space_from_dict(SPACES["mixed"]), 0)


VALUES = st.lists(st.integers(-50, 50), min_size=1, max_size=6, unique=True).map(sorted)
CHOICES = st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=4, unique=True)
DIMENSION = VALUES.map(lambda v: {"values": v}) | CHOICES.map(lambda c: {"choices": c})


@st.composite
def trees(draw):
    """Draw a space: some dimensions exist only with a value of an earlier one; some pairs have a rule."""
    tree = {}
    for place in range(draw(st.integers(1, 4))):
        leaf = draw(DIMENSION)
        parents = list(tree) if draw(st.booleans()) else []
        if parents:
            parent = draw(st.sampled_from(parents))
            leaf["when"] = {parent: [draw(st.sampled_from(next(iter(tree[parent].values()))))]}
        tree[f"k{place}"] = leaf
    numbers = [key for key, leaf in tree.items() if "values" in leaf]
    if numbers and draw(st.booleans()):
        # The largest value keeps the rule, so that something is left.
        key = draw(st.sampled_from(numbers))
        tree["require"] = f"{key} * 2 >= {2 * max(tree[key]['values']) - draw(st.integers(0, 60))}"
    return tree


# A point of an Optuna sampler takes long; so it is drawn less often. The literal windows need ranges as long as they.
NAMES = [name for name in STRATEGIES if name not in ("gp", "shifting_window_literal")]
NAMES += ["random", "grid", "shifting_window", "evolutionary"]


@settings(max_examples=50)
@given(tree=trees(), name=st.sampled_from(NAMES), failing=st.integers(1, 5))
def test_random_spaces_and_random_failures(tree, name, failing):
    space = space_from_dict(searched_by(name, tree))
    strategy = make_strategy(STRATEGIES[name], space, 3)
    history = play(strategy, 6, loss_of=lambda p: None if len(point_key(p)) % failing == 0 else 1.0)
    assert len(distinct(history)) == len(history)
    assert len({trial.key for trial in history}) <= space.size
    assert all(space.contains(trial.point) for trial in history)
    assert strategy.propose(history, []) == strategy.propose(History(list(history)), [])
