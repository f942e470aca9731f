"""Races of folds: who is clearly behind, with one metric and several."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.engine.schedule.stopping import Race, StopRule
from hpo.engine.strategies import make_strategy
from hpo.testing.simulated_tasks import World, facts, run
from hpo.trials.goal import Goal, Limit, finished
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial
from tests.hpo.engine.made import rules_of
from tests.studies import STRATEGIES

SPACE = space_from_dict({"x": list(range(9)), "y": list(range(9))})
LEVEL = 0.2
TWO = {"a": "minimize", "b": "maximize"}
LIMITS = (Limit("c", 6.0),)
GOALS = {
    "one": Goal({"a": "minimize"}), "one limited": Goal({"a": "minimize"}, LIMITS),
    "two": Goal(TWO), "two limited": Goal(TWO, LIMITS),
}  # fmt: skip


def trial(number, values, goal, tasks=4):
    outcomes = {i: Outcome({name: float(each[i]) for name, each in values.items()}) for i in range(tasks)}
    whole = Trial(number, number, {"x": number})
    return finished(whole, outcomes, goal) if tasks == 4 else Trial(number, number, {"x": number}, outcomes)


EQUAL = dict.fromkeys("abc", [1] * 4)
WORSE = {"a": [2, 3, 4]}


@pytest.mark.parametrize(
    ("goal", "own", "expected"),
    [
        # Worse on each task, by a t-test.
        ("one", WORSE, True),
        ("one", {"a": [2, 2, 2]}, True),
        ("one", {"a": [2, 1, 4]}, False),
        ("one", {"a": [2, 2, 90]}, False),
        ("one", {}, False),
        # Beyond a limit in the same way.
        ("one limited", {"c": [7, 8, 9]}, True),
        ("one limited", {"c": [5, 8, 9]}, False),
        # Of several metrics in all in which they differ.
        ("two", WORSE, True),
        ("two", WORSE | {"b": [0, -1, -2]}, True),
        ("two", WORSE | {"b": [2, 3, 4]}, False),
    ],
)
def test_a_trial_is_behind_where_a_rival_is_better_with_certainty_in_all_in_which_they_differ(goal, own, expected):
    """The rival has 1 in all of them."""
    race = Race(3, LEVEL, GOALS[goal])
    rivals = race.add_rival({}, trial(0, EQUAL, GOALS[goal]))
    assert race.is_behind(trial(9, EQUAL | own, GOALS[goal], tasks=3), rivals) == expected


def test_a_rival_counts_within_the_limits_alone():
    goal = GOALS["one limited"]
    race = Race(3, LEVEL, goal)
    for size, expected in ((9, False), (6, True)):
        rivals = race.add_rival({}, trial(0, EQUAL | {"c": [size] * 4}, goal))
        assert race.is_behind(trial(9, EQUAL | WORSE, goal, tasks=3), rivals) == expected


@pytest.mark.parametrize("goal", GOALS)
@settings(max_examples=8)
@given(
    seed=st.integers(0, 99), slots=st.integers(1, 5), order=st.integers(0, 99), dies_after=st.integers(0, 90),
    has_rule=st.booleans(),
)  # fmt: skip
def test_the_same_trials_are_behind_for_any_workers_and_after_any_crash(goal, seed, slots, order, dies_after, has_rule):
    """Also where the median rule stops trainings."""
    named = dict(zip("abc", ("score", "size", "speed"), strict=True))
    metrics = {named[name]: way for name, way in GOALS[goal].metrics.items()}
    world = World(seed, 3, goal=Goal(metrics, [Limit("speed", 0.6) for _ in GOALS[goal].limits]))
    stopping = {"race": Race(2, LEVEL, world.goal), "stop_rule": StopRule(1, world.goal) if has_rule else None}
    rules = rules_of(make_strategy(STRATEGIES["random"], SPACE, 0), **stopping)
    undisturbed = run(world, rules, 40)
    assert any(trial.state == "stopped" for trial in undisturbed.trials())
    states = {}
    record = run(world, rules, 40, slots, order, dies_after=dies_after, states=states)
    record = run(world, rules, 40, slots, order + 1, record, states=states)
    assert facts(record) == facts(undisturbed)
    # A stopped trial gets no further folds than those that ran next to the one that was stopped.
    assert [sorted(t.outcomes) for t in record.trials()] == [sorted(t.outcomes) for t in undisturbed.trials()]
