"""The median rule: which trainings are stopped, where, and that workers have no influence on it."""

import statistics
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpo.engine.schedule.rules import Rules
from hpo.engine.schedule.stopping import Medians, Race, StopRule
from hpo.engine.strategies import make_strategy
from hpo.testing.simulated_tasks import NOTHING, World, facts, run
from hpo.trials.goal import Goal, Limit, finished
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial
from hpo.workers.training.worker import Limits
from tests.studies import STRATEGIES

SPACE = space_from_dict({"x": list(range(9)), "y": list(range(9))})
CURVES = st.lists(st.integers(0, 9).map(float), min_size=1, max_size=5)


def rules(name, lanes=3, order="clock", races=False):
    strategy = make_strategy(STRATEGIES[name], SPACE, 0)
    race = Race(2, 0.2, Goal({"score": "minimize"})) if races else None
    rule = StopRule(1, Goal({"score": "minimize"}))
    return lambda tasks_of, cost_of: Rules(
        strategy=strategy, tasks_of=tasks_of, cost_of=cost_of, lanes=lanes, order=order, race=race, stop_rule=rule
    )


def trial_of(number, curve, direction="minimize", **fidelity):
    outcome = Outcome({"score": curve[-1]}, [{"epoch": place, "score": value} for place, value in enumerate(curve, 1)])
    return finished(Trial(number, number, {"x": number}, **fidelity), {0: outcome}, Goal({"score": direction}))


def limits_of(medians, rule, direction="minimize"):
    limits = medians.limits(Trial(99, 99, {"x": 99}), 0)
    return Limits(replace(NOTHING, direction=direction, limits=limits, limits_after=rule.after))


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@settings(max_examples=50)
@given(curves=st.lists(CURVES, min_size=5, max_size=9), own=CURVES, after=st.integers(1, 3))
def test_stops_where_the_best_so_far_is_worse_than_the_median_of_the_best_of_the_others(direction, curves, own, after):
    rule = StopRule(after, Goal({"score": direction}))
    medians, better = Medians(rule), min if direction == "minimize" else max
    for number, curve in enumerate(curves):
        medians.learn([trial_of(number, curve, direction)])
    limits = limits_of(medians, rule, direction)
    curve = [{"epoch": place, "score": value} for place, value in enumerate(own, 1)]
    stopped = next((point["epoch"] for point in curve if limits.stops(point)), None)

    def is_behind(place):
        median = statistics.median(better(curve[:place]) for curve in curves)
        best = better(own[:place])
        return best != median and better(best, median) == median

    expected = next((place for place in range(after, len(own) + 1) if is_behind(place)), None)
    assert stopped == expected


def test_no_trial_is_stopped_before_five_are_complete_nor_by_others_than_its_like():
    medians = Medians(StopRule(1, Goal({"score": "minimize"})))
    medians.learn(trial_of(number, [1.0]) for number in range(4))
    medians.learn([Trial(4, 4, {"x": 4}, {0: Outcome(error="failed")}, "failed")])
    medians.learn(trial_of(number, [1.0], amount=3) for number in range(5, 10))
    assert not medians.limits(Trial(10, 10, {"x": 10}), 0)
    assert not medians.limits(Trial(10, 10, {"x": 10}, amount=9), 0)
    assert medians.limits(Trial(10, 10, {"x": 10}, amount=3), 0) == [(1, 1.0)]


def test_with_limits_the_others_are_those_that_keep_them():
    goal = Goal({"score": "minimize"}, (Limit("size", 3.0),))
    medians = Medians(StopRule(1, goal))
    for number in range(10):
        outcome = Outcome({"score": 9.0, "size": number % 2 * 4.0}, [{"epoch": 1, "score": number % 2 - 1.0}])
        medians.learn([finished(Trial(number, number, {"x": number}), {0: outcome}, goal)])
    assert medians.limits(Trial(10, 10, {"x": 10}), 0) == [(1, -1.0)]


@pytest.mark.parametrize(("places", "stopped_at"), [([1, 2, 3, 10, 20], 10), ([7, 14, 20], 20), ([7, 14, 21], None)])
def test_trainings_compare_at_the_places_that_both_report(places, stopped_at):
    """The others report at 10, 20 and 30, and are better where they do."""
    rule = StopRule(1, Goal({"score": "minimize"}))
    medians = Medians(rule)
    for number in range(5):
        curve = [{"epoch": place, "score": 10 / place} for place in (10, 20, 30)]
        outcome = Outcome({"score": 10 / 30}, curve)
        medians.learn([finished(Trial(number, number, {"x": number}), {0: outcome}, rule.goal)])
    limits = limits_of(medians, rule)
    points = [{"epoch": place, "score": 50 / place} for place in places]
    assert next((point["epoch"] for point in points if limits.stops(point)), None) == stopped_at
    # As good as the others at each place.
    limits = limits_of(medians, rule)
    assert not any(limits.stops({"epoch": place, "score": 10 / place}) for place in places)


def test_what_is_continued_counts_with_the_best_of_all_its_places():
    rule = StopRule(1, Goal({"score": "minimize"}))
    medians = Medians(rule)
    for number in range(5):
        medians.learn([trial_of(number, [0.1, 0.9], amount=2)])
        curve = [{"epoch": 3, "score": 0.9}]
        further = Trial(number + 5, 1, {"x": number}, amount=3, trained=2, continues=number)
        medians.learn([finished(further, {0: Outcome({"score": 0.1}, curve)}, rule.goal)])
    at_three = Trial(99, 99, {"x": 99}, amount=3, trained=2, continues=98)
    assert medians.limits(at_three, 0) == [(3, 0.1)]
    # Its own best may lie in the training that it continues, too.
    for before, stops in ((0.1, False), (0.2, True)):
        payload = replace(NOTHING, limits=medians.limits(at_three, 0), earlier=[{"epoch": 1, "score": before}])
        assert bool(Limits(payload).stops({"epoch": 3, "score": 0.5})) == stops


@pytest.mark.quick("grid", "asha")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "grid", "evolutionary", "evolutionary_plain", "asha"])
@settings(max_examples=12)
@given(
    seed=st.integers(0, 99), folds=st.integers(1, 3), slots=st.integers(1, 5), order=st.integers(0, 99),
    dies_after=st.integers(0, 90), budget=st.integers(1, 40), races=st.booleans(),
)  # fmt: skip
@example(seed=0, folds=3, slots=4, order=1, dies_after=30, budget=20, races=True)
def test_the_same_trials_are_stopped_for_any_workers_after_any_crash_and_under_a_raised_budget(
    name, seed, folds, slots, order, dies_after, budget, races
):
    world, course = World(seed, folds, failing=0.1), rules(name, races=races and folds > 2)
    undisturbed, states = run(world, course, 40), {}
    record = run(world, course, budget, slots, order, dies_after=dies_after, states=states)
    record = run(world, course, budget, slots, order + 1, record, states=states)
    assert facts(record) == facts(undisturbed)[:budget]
    assert facts(run(world, course, 40, slots, order + 2, record)) == facts(undisturbed)
    # A stopped trial gets no further folds than those that ran beside the one that was stopped.
    assert [sorted(t.outcomes) for t in record.trials()] == [sorted(t.outcomes) for t in undisturbed.trials()]


@pytest.mark.parametrize("order", ["clock", "free"])
@pytest.mark.parametrize("name", ["random", "grid", "evolutionary_plain", "cma_es"])
def test_stopped_trials_are_worse_and_shorter_whatever_proposed_them(name, order):
    trials = run(World(1, 2), rules(name, order=order), 60).trials()
    stopped = [outcome for trial in trials for outcome in trial.outcomes.values() if outcome.stopped]
    assert len(stopped) > 5
    assert {trial.state for trial in trials} == {"complete", "stopped"}
    assert all(outcome.metrics["score"] == min(point["score"] for point in outcome.curve) for outcome in stopped)
    assert all(len(trial.outcomes) == 2 for trial in trials if trial.state == "complete" or order == "free")
    if order == "clock":
        assert any(len(trial.outcomes) == 1 for trial in trials)
