"""What every strategy promises, on every kind of space. A new strategy is one line in tests.studies.STRATEGIES."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.engine.schedule.proposer import propose
from hpo.engine.schedule.stopping import StopRule
from hpo.engine.strategies import STRATEGIES as REGISTERED
from hpo.engine.strategies import make_strategy
from hpo.testing import check_strategy
from hpo.testing.law import Disturbance, check_asking, check_free_order, check_law, check_user_actions
from hpo.testing.simulated_tasks import World
from hpo.testing.strategies import distinct, play
from hpo.trials.goal import Goal
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import point_key
from tests.studies import REPOSITORY, SPACES, STRATEGIES, searched_by

# A point of the Gaussian process takes a tenth of a second and more.
QUICK = [name for name in STRATEGIES if name != "gp"]
CASES = [
    pytest.param(name, space, id=f"{name}-{space}")
    for name in STRATEGIES
    for space in SPACES
    # All of `mixed` takes the Gaussian process a minute; `all ordered` shows the same.
    if (name, space) not in {("grid", "continuous"), ("shifting_window_literal", "one point"), ("gp", "mixed")}
]


def make(name, space_name, seed=0):
    return make_strategy(STRATEGIES[name], space_from_dict(searched_by(name, SPACES[space_name])), seed)


def test_every_registered_strategy_is_under_this_contract():
    assert {settings["name"] for settings in STRATEGIES.values()} == set(REGISTERED)


@pytest.mark.quick("*-one point", *(f"{name}-conditional" for name in QUICK))
@pytest.mark.nightly("gp-continuous", "gp-all ordered")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "space"), CASES)
def test_it_keeps_what_is_asked_of_every_strategy(name, space):
    check_strategy(STRATEGIES[name], {space: searched_by(name, SPACES[space])})


STOP_RULES = st.sampled_from([None, StopRule(1, Goal({"score": "minimize"}))])


WORLDS = st.builds(
    World,
    seed=st.integers(0, 999),
    folds=st.integers(1, 2),
    failing=st.sampled_from([0, 0.4]),
    says_goes_on=st.booleans(),
)


SEARCHES = given(
    world=WORLDS, lanes=st.integers(1, 5), slots=st.integers(1, 6), orders=st.tuples(st.integers(), st.integers()),
    budget=st.integers(1, 16), dies_after=st.integers(0, 60), stop_rule=STOP_RULES,
)  # fmt: skip


@pytest.mark.quick(*QUICK)
@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=6)
@SEARCHES
def test_the_law(name, world, lanes, slots, orders, budget, dies_after, stop_rule):
    """The same trials for any number of workers, in any order, after a crash, and under a budget that is raised."""
    check_law(lambda: make(name, "mixed"), world, Disturbance(slots, orders, dies_after, budget), lanes, stop_rule)


@pytest.mark.quick(*QUICK)
@pytest.mark.nightly("gp")
@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=4)
@given(
    world=WORLDS, slots=st.integers(2, 6), orders=st.tuples(st.integers(), st.integers()),
    dies_after=st.integers(0, 60), stop_rule=STOP_RULES,
)  # fmt: skip
def test_the_free_order_is_repeated_from_what_was_known(name, world, slots, orders, dies_after, stop_rule):
    """The record says what each proposal knew; the same knowledge gives the same trials, whatever finishes first."""
    check_free_order(lambda: make(name, "mixed"), world, Disturbance(slots, orders, dies_after), stop_rule)


def large_or_small(seed):
    """Return a space; the small one is exhausted before the budget, and what users give then is all that is tried."""
    return "all unordered" if seed % 2 else "mixed"


@pytest.mark.quick("random", "evolutionary", "asha")
@pytest.mark.nightly("gp")
@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=6)
@SEARCHES
def test_the_law_holds_where_a_hand_gives_points(name, world, lanes, slots, orders, budget, dies_after, stop_rule):
    disturbed = Disturbance(slots, orders, dies_after, budget)
    check_user_actions(lambda: make(name, large_or_small(world.seed)), world, disturbed, lanes, stop_rule)


@pytest.mark.quick("evolutionary", "asha", "hyperband")
@pytest.mark.nightly("gp")
@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=6)
@given(seed=st.integers(0, 999), failing=st.sampled_from([0, 0.4]), budget=st.integers(1, 16), stop_rule=STOP_RULES)
def test_what_is_asked_and_told_follows_from_the_record(name, seed, failing, budget, stop_rule):
    """The same questions and answers give the same trials, in one session and in many."""
    check_asking(lambda: make(name, large_or_small(seed)), World(seed, failing=failing), seed, budget, stop_rule)


@pytest.mark.slow
def test_a_fresh_process_proposes_the_same():
    histories = {name: play(make(name, "mixed"), 2) for name in STRATEGIES}
    told = {
        n: [[t.number, t.round, dict(t.point), t.loss, t.amount, t.trained] for t in h] for n, h in histories.items()
    }
    code = (
        "import json, sys\n"
        "from hpo.engine.schedule.proposer import propose\n"
        "from hpo.trials.history import History\n"
        "from hpo.trials.trial import Trial\n"
        "from tests.contracts.test_strategies import make\n"
        "for name, trials in json.load(sys.stdin).items():\n"
        "    history = History([\n"
        "        Trial(n, r, p, state='complete', score=l, loss=l, amount=a, trained=t)\n"
        "        for n, r, p, l, a, t in trials\n"
        "    ])\n"
        "    print(json.dumps([vars(p) for p in propose(make(name, 'mixed'), history)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
        env={"PYTHONHASHSEED": "7", "PATH": ""},
    )
    expected = [[vars(p) for p in propose(make(name, "mixed"), history)] for name, history in histories.items()]
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
    """Draw a space: some dimensions exist only beside a value of an earlier one; some pairs have a rule."""
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
