"""Races of folds: who is clearly behind, with one metric and several, against the rule written out."""

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

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
VALUES = st.fixed_dictionaries({name: st.lists(st.integers(0, 9), min_size=4, max_size=4) for name in "abc"})


def trial(number, values, goal, tasks=4):
    outcomes = {i: Outcome({name: float(each[i]) for name, each in values.items()}) for i in range(tasks)}
    whole = Trial(number, number, {"x": number})
    return finished(whole, outcomes, goal) if tasks == 4 else Trial(number, number, {"x": number}, outcomes)


def is_above(differences):
    """Return whether all are above 0, and their mean is by a t-test."""
    if min(differences) <= 0:
        return False
    return len(set(differences)) == 1 or stats.ttest_1samp(differences, 0, alternative="greater").pvalue < LEVEL


def losses(values, goal):
    """Return the losses on the first three tasks, by metric."""
    return [[(-1 if way == "maximize" else 1) * v for v in values[name][:3]] for name, way in goal.metrics.items()]


def is_behind(own, others, goal):
    """Return it by the rule, from all that is known."""
    kept = [each for each in others if not goal.limits or statistics.fmean(each["c"]) <= 6]
    means = [tuple(map(statistics.fmean, losses(each, goal))) for each in kept]

    def dominates(one, other):
        return one != other and all(x <= y for x, y in zip(one, other, strict=True))

    # Of those with equal means the first.
    rivals = [
        each
        for place, each in enumerate(kept)
        if not any(dominates(other, means[place]) for other in means) and means.index(means[place]) == place
    ]
    if rivals and goal.limits and is_above([value - 6 for value in own["c"][:3]]):
        return True
    for rival in rivals:
        pairs = zip(losses(own, goal), losses(rival, goal), strict=True)
        differences = [[x - y for x, y in zip(*pair, strict=True)] for pair in pairs]
        different = [each for each in differences if any(each)]
        if different and all(map(is_above, different)):
            return True
    return False


@pytest.mark.parametrize("goal", GOALS)
@settings(max_examples=40)
@given(others=st.lists(VALUES, max_size=6), own=VALUES)
def test_a_trial_is_behind_where_a_rival_is_better_with_certainty_in_all_in_which_they_differ(goal, others, own):
    race, rivals = Race(3, LEVEL, GOALS[goal]), {}
    for number, values in enumerate(others):
        rivals = race.add_rival(rivals, trial(number, values, GOALS[goal]))
    assert race.is_behind(trial(99, own, GOALS[goal], tasks=3), rivals) == is_behind(own, others, GOALS[goal])


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
