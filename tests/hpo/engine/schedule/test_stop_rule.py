"""Rules that stop: the median rule within trainings, and races of folds; who is clearly behind, and where."""

import statistics
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.engine.schedule.stopping import Medians, Race, StopRule
from hpo.engine.strategies import make_strategy
from hpo.testing.simulated_tasks import NOTHING, World, facts, run
from hpo.trials.goal import Goal, Limit, finished
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial
from hpo.workers.training.worker import Limits
from tests.hpo.engine.made import LOSS, ended, rules_of
from tests.studies import STRATEGIES

CURVES = st.lists(st.integers(0, 9).map(float), min_size=1, max_size=5)
SPACE, LEVEL = space_from_dict({"x": list(range(9)), "y": list(range(9))}), 0.2
TWO, LIMITS = {"a": "minimize", "b": "maximize"}, (Limit("c", 6.0),)
GOALS = {"one": Goal({"a": "minimize"}), "one limited": Goal({"a": "minimize"}, LIMITS)}
GOALS |= {"two": Goal(TWO), "two limited": Goal(TWO, LIMITS)}
EQUAL, WORSE = dict.fromkeys("abc", [1] * 4), {"a": [2, 3, 4]}


def trial_of(number, curve, goal=LOSS, **fields):
    """Return a trial of a learning curve: losses at places, or at 1, 2, ..."""
    curve = curve if isinstance(curve, dict) else dict(enumerate(curve, 1))
    points = [{"epoch": place, "loss": value} for place, value in curve.items()]
    return ended(number, {"x": number}, points[-1]["loss"], goal, points, **fields)


def learned(trials, rule):
    medians = Medians(rule)
    medians.learn(trials)
    return medians


def stop_of(medians, rule, curve, direction="minimize"):
    given = {"limits": medians.limits(Trial(99, 99, {"x": 99}), 0), "limits_after": rule.after}
    limits = Limits(replace(NOTHING, metric="loss", direction=direction, **given))
    return next((place for place, loss in curve.items() if limits.stops({"epoch": place, "loss": loss})), None)


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@settings(max_examples=50)
@given(curves=st.lists(CURVES, min_size=5, max_size=9), own=CURVES, after=st.integers(1, 3))
def test_stops_where_the_best_so_far_is_worse_than_the_median_of_the_best_of_the_others(direction, curves, own, after):
    rule, better = StopRule(after, Goal({"loss": direction})), min if direction == "minimize" else max
    medians = learned([trial_of(number, curve, rule.goal) for number, curve in enumerate(curves)], rule)

    def is_behind(place):
        median, best = statistics.median(better(curve[:place]) for curve in curves), better(own[:place])
        return best != median and better(best, median) == median

    expected = next((place for place in range(after, len(own) + 1) if is_behind(place)), None)
    assert stop_of(medians, rule, dict(enumerate(own, 1)), direction) == expected


def test_no_trial_is_stopped_before_five_are_complete_nor_by_others_than_its_like():
    few = [*(trial_of(number, [1.0]) for number in range(4)), ended(4, {"x": 4}, None)]
    medians = learned([*few, *[trial_of(number, [1.0], amount=3) for number in range(5, 10)]], StopRule(1, LOSS))
    limits = {amount: medians.limits(Trial(10, 10, {"x": 10}, amount=amount), 0) for amount in (None, 9, 3)}
    assert limits == {None: [], 9: [], 3: [(1, 1.0)]}


def test_with_limits_the_others_are_those_that_keep_them():
    goal = Goal({"loss": "minimize"}, (Limit("size", 3.0),))
    curves = ([{"epoch": 1, "loss": number % 2 - 1.0}] for number in range(10))
    trials = [ended(n, {"x": n}, {"loss": 9.0, "size": n % 2 * 4.0}, goal, curve) for n, curve in enumerate(curves)]
    assert learned(trials, StopRule(1, goal)).limits(Trial(10, 10, {"x": 10}), 0) == [(1, -1.0)]


@pytest.mark.parametrize(("places", "stopped_at"), [([1, 2, 3, 10, 20], 10), ([7, 14, 20], 20), ([7, 14, 21], None)])
def test_trainings_compare_at_the_places_that_both_report(places, stopped_at):
    """The others report at 10, 20 and 30, and are better where they do."""
    rule = StopRule(1, LOSS)
    medians = learned([trial_of(number, {place: 10 / place for place in (10, 20, 30)}) for number in range(5)], rule)
    assert stop_of(medians, rule, {place: 50 / place for place in places}) == stopped_at
    assert stop_of(medians, rule, {place: 10 / place for place in places}) is None, "as good as the others"


def test_what_is_continued_counts_with_the_best_of_all_its_places():
    trials = []
    for number in range(5):
        trials.append(trial_of(number, [0.1, 0.9], amount=2))
        trials.append(trial_of(number + 5, {3: 0.9}, amount=3, trained=2, continues=number))
    at_three = Trial(99, 99, {"x": 99}, amount=3, trained=2, continues=98)
    assert learned(trials, StopRule(1, LOSS)).limits(at_three, 0) == [(3, 0.1)]


def trial(number, values, goal, tasks=4):
    outcomes = {i: Outcome({name: float(each[i]) for name, each in values.items()}) for i in range(tasks)}
    whole = Trial(number, number, {"x": number})
    return finished(whole, outcomes, goal) if tasks == 4 else Trial(number, number, {"x": number}, outcomes)


@pytest.mark.parametrize(("goal", "own", "expected"), [
    ("one", WORSE, True), ("one", {"a": [2, 2, 2]}, True), ("one", {"a": [2, 1, 4]}, False),
    ("one", {"a": [2, 2, 90]}, False), ("one", {}, False), ("one limited", {"c": [7, 8, 9]}, True),
    ("one limited", {"c": [5, 8, 9]}, False), ("two", WORSE, True), ("two", WORSE | {"b": [0, -1, -2]}, True),
    ("two", WORSE | {"b": [2, 3, 4]}, False)
])  # fmt: skip
def test_a_trial_is_behind_where_a_rival_is_better_with_certainty_in_all_in_which_they_differ(goal, own, expected):
    """The rival has 1 in all of them."""
    race = Race(3, LEVEL, GOALS[goal])
    rivals = race.add_rival({}, trial(0, EQUAL, GOALS[goal]))
    assert race.must_stop(trial(9, EQUAL | own, GOALS[goal], tasks=3), rivals) == expected


def test_a_rival_counts_within_the_limits_alone():
    goal = GOALS["one limited"]
    race = Race(3, LEVEL, goal)
    for size, expected in ((9, False), (6, True)):
        rivals = race.add_rival({}, trial(0, EQUAL | {"c": [size] * 4}, goal))
        assert race.must_stop(trial(9, EQUAL | WORSE, goal, tasks=3), rivals) == expected


@pytest.mark.parametrize("goal", GOALS)
@settings(max_examples=8)
@given(
    seed=st.integers(0, 99), slots=st.integers(1, 5), order=st.integers(0, 99), dies_after=st.integers(0, 90),
    has_rule=st.booleans(),
)  # fmt: skip
def test_the_same_trials_are_behind_for_any_workers_and_after_any_crash(goal, seed, slots, order, dies_after, has_rule):
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
