"""Budgets: the first that is reached cuts the sequence of trials, and changes none of them."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.config.goals import SCALE
from hpo.engine.loop import is_over, search
from hpo.engine.schedule.stopping import Target
from hpo.engine.strategies import make_strategy
from hpo.testing.simulated_tasks import NOTHING, AnyOrder, World, empty_record, facts, run
from hpo.trials.goal import Goal, Limit
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome
from hpo.workers.training.tasks import Task
from tests.hpo.engine.made import ended, history_of, rules_of
from tests.studies import STRATEGIES, shipped

SPACE = space_from_dict({"x": {"low": 0.0, "high": 1.0}, "y": {"low": 0.0, "high": 1.0}})
DISTURBED = st.tuples(st.integers(1, 5), st.integers(0, 99), st.integers(0, 60))


def rules(name, lanes=3, **more):
    return rules_of(make_strategy(STRATEGIES[name], SPACE, 0), lanes, **more)


def check_cut(world, limited, unlimited, disturbed):
    """Check that a limit, of rules and a budget, ends a search at the same trial, and that without it it goes on."""
    slots, order, dies_after = disturbed
    cut, whole = run(world, *limited), facts(run(world, *unlimited))
    assert facts(cut) == whole[: len(cut.trials())]
    record = run(world, *limited, slots, order, dies_after=dies_after)
    assert facts(run(world, *limited, slots, order + 1, record)) == facts(cut)
    assert facts(run(world, *unlimited, slots, order, record)) == whole
    return cut


@pytest.mark.parametrize("name", ["random", "evolutionary", "asha"])
@settings(max_examples=5)
@given(seed=st.integers(0, 99), disturbed=DISTURBED, limit=st.integers(1, 8))
def test_a_search_without_gain_ends_at_the_same_trial_for_any_workers(name, seed, disturbed, limit):
    limited, unlimited = ((rules(name, stop_without_gain=most), 60) for most in (limit, 10_000))
    cut = check_cut(World(seed, failing=0.2), limited, unlimited, disturbed)
    assert cut.ended.by == ("trials" if len(cut.trials()) == 60 else "stop_without_gain")


@pytest.mark.parametrize("name", ["random", "asha"])
@settings(max_examples=5)
@given(seed=st.integers(0, 99), disturbed=DISTURBED)
def test_a_search_ends_at_its_target_at_the_same_trial_for_any_workers(name, seed, disturbed):
    world, full = World(seed, failing=0.2), STRATEGIES[name].get("max_amount")
    unlimited = (rules(name, target=Target((-math.inf,), full, 0)), 60)
    whole = run(world, *unlimited)
    assert whole.ended.by == "trials"
    losses = sorted(trial.loss for trial in whole.trials() if trial.state == "complete" and trial.amount == full)
    for loss in (math.inf, losses[len(losses) // 2]) if losses else ():
        target = Target((loss,), full, 0)
        cut = check_cut(world, (rules(name, target=target), 60), unlimited, disturbed)
        assert any(map(target.is_reached_by, cut.trials()))
        assert cut.ended.by == "target" or len(cut.trials()) == 60


@pytest.mark.parametrize("name", ["successive_halving", "hyperband", "asha"])
@settings(max_examples=5)
@given(seed=st.integers(0, 99), disturbed=DISTURBED, budget=st.integers(1, 12))
def test_a_budget_of_configurations_cuts_the_trials_where_the_next_would_begin_another(name, seed, disturbed, budget):
    world, counted = World(seed, failing=0.2), rules(name, counts="configurations")
    cut, whole = check_cut(world, (counted, budget), (counted, 20), disturbed), run(world, counted, 20).trials()
    assert sum(trial.continues is None for trial in cut.trials()) == budget
    assert all(trial.continues is None for trial in whole[len(cut.trials()) :][:1])
    assert cut.ended.by == "trials"


def test_a_target_is_reached_fully_trained_at_the_target_scale_and_within_the_limits():
    goal = Goal({"accuracy": "maximize", "seconds": "minimize"}, [Limit("memory", 8.0)])
    target = Target.of({"accuracy": 0.9, "seconds": 2.0}, goal, full_amount=9)

    def is_reached(amount=9, **values):
        values = {"accuracy": 0.9, "seconds": 2.0, "memory": 8.0} | values
        return target.is_reached_by(ended(0, {"x": 0.5}, values, goal, amount=amount))

    assert is_reached()
    assert not any((is_reached(accuracy=0.89), is_reached(seconds=2.1), is_reached(memory=9.0), is_reached(amount=3)))
    scaled = Goal({"loss": "minimize"}, target=2)
    trials = [ended(0, {SCALE: scale}, 0.5, scaled) for scale in (1, 2)]
    assert [*map(Target.of(1.0, scaled, None).is_reached_by, trials)] == [False, True]


class Rising(World):
    def outcome(self, trial, index):
        return Outcome({"score": float(trial.number)})


@pytest.mark.parametrize("name", ["random", "grid", "qmc", "evolutionary"])
def test_a_search_without_gain_ends_also_within_points_that_were_proposed_together(name):
    strategy = make_strategy(shipped(name), space_from_dict({"x": [*range(9)], "y": [*range(9)]}), 0)
    assert len(run(Rising(0), rules_of(strategy, lanes=1, stop_without_gain=5), 60).trials()) == 6


@pytest.mark.parametrize("num_imported", [0, 5, 20])
def test_imported_trials_count_for_no_limit_but_a_trial_must_be_better_than_they_are(num_imported):
    point, goal = {"x": 0.5, "y": 0.5}, Goal({"score": "minimize"})
    imported = [ended(-number, point, -1.0, goal, round=-1) for number in range(num_imported, 0, -1)]
    record = run(Rising(0), rules("random", lanes=1, imported=imported, stop_without_gain=5), 60)
    assert len(record.trials()) == (5 if num_imported else 6)


@settings(max_examples=10)
@given(seed=st.integers(0, 999), slots=st.integers(1, 6), order=st.integers(0, 99))
def test_a_search_of_free_order_that_ended_without_gain_stays_ended(seed, slots, order):
    world, limited = World(seed, failing=0.1), rules("shifting_window", 4, order="free", stop_without_gain=4)
    trials = facts(record := run(world, limited, 40, slots, order))
    assert facts(run(world, limited, 40, slots, order + 1, record)) == trials
    without = rules("shifting_window", 4, order="free")
    assert len(trials) == 40 or len(run(world, without, 40, slots, order, record).trials()) == 40


@pytest.mark.parametrize(("trials", "expected"), [
    # Losses, of which ties are no gain and failures none.
    ([], [0]), ([(1.0, None), (2.0, None), (1.0, None)], [0, 0, 1, 2]), ([(None, None), (None, None)], [0, 1, 2]),
    ([(3.0, None), (None, None), (1.0, None), (None, None)], [0, 0, 1, 0, 1]),
    ([(0.1, 1), (0.4, 9), (0.3, 9)], [0, 0, 0, 0]), ([(0.4, 9), (0.1, 1)], [0, 0, 1])
])  # fmt: skip
def test_trials_without_gain_are_counted_from_the_best(trials, expected):
    history = History(ended(n, {"x": n}, loss, amount=amount) for n, (loss, amount) in enumerate(trials))
    assert [history.first(length).num_without_gain for length in range(len(trials) + 1)] == expected


def test_with_several_metrics_a_trial_that_enters_the_front_within_the_limits_is_a_gain():
    goal = Goal({"a": "minimize", "b": "maximize"}, (Limit("c", 2.0),))
    values = [(3, 1, 0), (4, 2, 0), (4, 0, 0), (4, 2, 0), (0, 9, 3), (3, 3, 0)]
    points = [{"x": number} for number in range(len(values))]
    history = history_of(points, [dict(zip("abc", map(float, each), strict=True)) for each in values], goal)
    # The third is dominated, the fourth has the values of another, and the fifth exceeds the limit.
    assert [history.first(length).num_without_gain for length in range(1, 7)] == [0, 0, 1, 2, 3, 0]


class Slow(AnyOrder):
    def wait(self, timeout=None):
        self.now += 60.0
        return super().wait(timeout)


def searched_slowly(name, record, num_trials, minutes):
    dispatcher = Slow(World(1), 2, 0)

    def tasks_of(trial):
        dispatcher.trials[trial.number] = trial
        return [Task(trial.number, 0, NOTHING)]

    its = rules(name)(tasks_of, World(1).cost_of)
    search(its, record, dispatcher, num_trials, minutes=minutes)
    return its


@pytest.mark.parametrize("name", ["random", "evolutionary"])
def test_minutes_cut_the_sequence_between_two_trials_and_may_be_raised(name):
    whole, record, ends = facts(run(World(1), rules(name), 30)), empty_record(World(1)), []
    for minutes in (10, 10, 25, 1000):
        its = searched_slowly(name, record, 30, minutes)
        assert [row[3:] for row in facts(record)] == [row[3:] for row in whole[: len(record.trials())]]
        assert is_over(its, record, 30, minutes)
        assert not is_over(its, record, 31, 10_000)
        ends.append((len(record.trials()), record.ended.by))
    assert ends[0] == ends[1]
    assert ends[0][0] < ends[2][0] < ends[3][0] == 30
    assert [by for _, by in ends] == ["minutes", "minutes", "minutes", "trials"]


def test_the_space_may_end_a_search():
    strategy = make_strategy(STRATEGIES["grid"], space_from_dict({"x": [1, 2, 3]}), 0)
    record = run(World(0), rules_of(strategy, lanes=2), 9)
    assert (len(record.trials()), record.ended.by) == (3, "space")
