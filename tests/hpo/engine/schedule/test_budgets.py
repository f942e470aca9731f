"""Budgets: the first that is reached cuts the sequence of trials, and changes none of them."""

import contextlib
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.config.goals import SCALE
from hpo.engine.loop import is_over, search, seconds_spent
from hpo.engine.schedule.rules import Rules
from hpo.engine.schedule.stopping import Target
from hpo.engine.strategies import make_strategy
from hpo.testing.simulated_tasks import NOTHING, AnyOrder, Killed, World, facts, run
from hpo.trials.goal import Goal, Limit, finished
from hpo.trials.history import History
from hpo.trials.ranking import front
from hpo.trials.record.record import memory_record
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, TaskLayout, Trial
from hpo.workers.training.tasks import Task
from tests.studies import STRATEGIES, shipped

SPACE = space_from_dict({"x": {"low": 0.0, "high": 1.0}, "y": {"low": 0.0, "high": 1.0}})


def rules(name, without_gain=None, lanes=3, **more):
    strategy = make_strategy(STRATEGIES[name], SPACE, 0)
    return lambda tasks_of, cost_of: Rules(
        strategy=strategy, tasks_of=tasks_of, cost_of=cost_of, lanes=lanes, stop_without_gain=without_gain, **more
    )


@pytest.mark.quick("random", "asha")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "evolutionary", "evolutionary_plain", "asha"])
@settings(max_examples=10)
@given(
    seed=st.integers(0, 99), slots=st.integers(1, 5), order=st.integers(0, 99), limit=st.integers(1, 8),
    dies_after=st.integers(0, 60),
)  # fmt: skip
def test_a_search_without_gain_ends_at_the_same_trial_for_any_workers_and_after_any_crash(
    name, seed, slots, order, limit, dies_after
):
    world = World(seed, failing=0.2)
    cut = run(world, rules(name, limit), 60)
    # Without a limit, what each one learned is not kept where it has no influence.
    whole = facts(run(world, rules(name, 10_000), 60))
    assert facts(cut) == whole[: len(cut.trials())]
    record = run(world, rules(name, limit), 60, slots, order, dies_after=dies_after)
    assert facts(run(world, rules(name, limit), 60, slots, order + 1, record)) == facts(cut)
    assert cut.ended.by == ("trials" if len(cut.trials()) == 60 else "stop_without_gain")
    assert facts(run(world, rules(name, 10_000), 60, slots, order, record)) == whole


@pytest.mark.quick("random", "asha")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "evolutionary", "asha", "hyperband"])
@settings(max_examples=10)
@given(
    seed=st.integers(0, 99), slots=st.integers(1, 5), order=st.integers(0, 99), dies_after=st.integers(0, 60),
)  # fmt: skip
def test_a_search_ends_at_its_target_at_the_same_trial_for_any_workers_and_after_any_crash(
    name, seed, slots, order, dies_after
):
    world, full = World(seed, failing=0.2), STRATEGIES[name].get("max_amount")
    never, first = Target((-math.inf,), full, 0), Target((math.inf,), full, 0)
    whole = run(world, rules(name, target=never), 60)
    assert whole.ended.by == "trials"
    fully_trained = [trial for trial in whole.trials() if trial.state == "complete" and trial.amount == full]
    if not fully_trained:
        return
    middle = Target((sorted(trial.loss for trial in fully_trained)[len(fully_trained) // 2],), full, 0)
    for target in (first, middle):
        cut = run(world, rules(name, target=target), 60)
        number = len(cut.trials())
        assert facts(cut) == facts(whole)[:number]
        assert any(map(target.is_reached_by, cut.trials()))
        assert cut.ended.by == ("target" if number < 60 else cut.ended.by)
        record = run(world, rules(name, target=target), 60, slots, order, dies_after=dies_after)
        assert facts(run(world, rules(name, target=target), 60, slots, order + 1, record)) == facts(cut)
        assert facts(run(world, rules(name, target=never), 60, slots, order, record)) == facts(whole)


def test_a_target_is_reached_fully_trained_at_the_target_scale_and_within_the_limits():
    goal = Goal({"accuracy": "maximize", "seconds": "minimize"}, [Limit("memory", 8.0)])
    target = Target.of({"accuracy": 0.9, "seconds": 2.0}, goal, full_amount=9)

    def ended(accuracy=0.9, seconds=2.0, memory=8.0, amount=9):
        trial = goal.trial(0, 0, {"x": 0.5}, amount=amount)
        return finished(trial, {0: Outcome({"accuracy": accuracy, "seconds": seconds, "memory": memory})}, goal)

    assert target.is_reached_by(ended())
    assert not any(map(target.is_reached_by, (ended(0.89), ended(seconds=2.1), ended(memory=9.0), ended(amount=3))))
    scaled = Goal({"loss": "minimize"}, target=2)
    at_scale = Target.of(1.0, scaled, None)
    of_scale = [finished(scaled.trial(0, 0, {SCALE: each}), {0: Outcome({"loss": 0.5})}, scaled) for each in (1, 2)]
    assert [*map(at_scale.is_reached_by, of_scale)] == [False, True]


@pytest.mark.parametrize("name", ["successive_halving", "hyperband", "asha"])
@settings(max_examples=10)
@given(
    seed=st.integers(0, 99), slots=st.integers(1, 5), order=st.integers(0, 99), budget=st.integers(1, 12),
    dies_after=st.integers(0, 60),
)  # fmt: skip
def test_a_budget_of_configurations_cuts_the_trials_where_the_next_would_begin_another(
    name, seed, slots, order, budget, dies_after
):
    world = World(seed, failing=0.2)

    def its(tasks_of, cost_of):
        return replace(rules(name)(tasks_of, cost_of), counts="configurations")

    whole, cut = facts(run(world, its, 20)), run(world, its, budget)
    assert facts(cut) == whole[: len(cut.trials())]
    assert sum(trial.continues is None for trial in cut.trials()) == budget
    following = whole[len(cut.trials()) :]
    assert not following or following[0][5] is None
    record = run(world, its, budget, slots, order, dies_after=dies_after)
    assert facts(run(world, its, budget, slots, order + 1, record)) == facts(cut)
    assert cut.ended.by == "trials"
    assert facts(run(world, its, 20, slots, order, record)) == whole


@pytest.mark.parametrize("name", ["random", "grid", "qmc", "evolutionary"])
def test_a_search_without_gain_ends_also_within_points_that_were_proposed_together(name):
    """With the settings of conf/, whose first proposals are large; the first trial is the best of all."""
    space = space_from_dict({"x": list(range(9)), "y": list(range(9))})
    strategy = make_strategy(shipped(name), space, 0)

    class Falling(World):
        def outcome(self, trial, index):
            return Outcome({"score": float(trial.number)})

    def its(tasks_of, cost_of):
        return Rules(strategy=strategy, tasks_of=tasks_of, cost_of=cost_of, lanes=1, stop_without_gain=5)

    assert len(run(Falling(0), its, 60).trials()) == 6


@pytest.mark.slow
@settings(max_examples=30)
@given(seed=st.integers(0, 999), slots=st.integers(1, 6), order=st.integers(0, 99))
def test_a_search_of_free_order_that_ended_without_gain_stays_ended(seed, slots, order):
    world = World(seed, failing=0.1)

    def its(limit):
        strategy = make_strategy(STRATEGIES["shifting_window"], SPACE, 0)
        return lambda tasks_of, cost_of: Rules(
            strategy=strategy, tasks_of=tasks_of, cost_of=cost_of, lanes=4, order="free", stop_without_gain=limit
        )

    record = run(world, its(4), 40, slots, order)
    ended = facts(record)
    asked = its(4)(lambda trial: [Task(trial.number, 0, NOTHING)], world.cost_of)
    assert is_over(asked, record, 40)
    assert facts(run(world, its(4), 40, slots, order + 1, record)) == ended
    if len(ended) < 40:
        assert record.ended.by == "stop_without_gain"
        assert len(run(world, its(None), 40, slots, order + 1, record).trials()) == 40


@pytest.mark.parametrize("num_imported", [0, 5, 20])
def test_imported_trials_count_for_no_limit(num_imported):
    outcome = {0: Outcome({"score": 0.0})}
    point = {"x": 0.5, "y": 0.5}
    imported = [
        finished(Trial(-n, -1, point), outcome, Goal({"score": "minimize"})) for n in range(num_imported, 0, -1)
    ]
    strategy = make_strategy(STRATEGIES["random"], SPACE, 0)

    class Worse(World):
        def outcome(self, trial, index):
            return Outcome({"score": 1.0 + trial.number})

    def its(tasks_of, cost_of):
        return Rules(
            strategy=strategy, tasks_of=tasks_of, cost_of=cost_of, lanes=1, imported=imported, stop_without_gain=5
        )

    assert len(run(Worse(0), its, 60).trials()) == (5 if num_imported else 6)


def test_trials_without_gain_are_counted_from_the_best():
    def history(*losses):
        outcomes = [Outcome(error="x") if loss is None else Outcome({"s": loss}) for loss in losses]
        return History(finished(Trial(n, n, {"x": n}), {0: o}, Goal({"s": "minimize"})) for n, o in enumerate(outcomes))

    counted = {
        (): 0,
        (1.0,): 0,
        (None,): 1,
        (None, None): 2,
        (1.0, 2.0, 1.0): 2,
        (3.0, None, 1.0): 0,
        (3.0, 1.0, None): 1,
    }
    assert {losses: history(*losses).num_without_gain for losses in counted} == counted
    assert [history(3.0, 1.0, 2.0, 0.5).first(length).num_without_gain for length in range(5)] == [0, 0, 0, 1, 0]


def test_a_trial_that_was_trained_further_is_a_gain_and_a_tie_is_none():
    def trial(number, loss, amount=None):
        return finished(
            Trial(number, number, {"x": number}, amount=amount), {0: Outcome({"s": loss})}, Goal({"s": "minimize"})
        )

    assert History([trial(0, 0.1, 1), trial(1, 0.4, 9), trial(2, 0.3, 9)]).num_without_gain == 0
    assert History([trial(0, 0.4, 9), trial(1, 0.1, 1)]).num_without_gain == 1
    assert History([trial(3, 0.5), trial(1, 0.7), trial(0, 0.5)]).num_without_gain == 2


@settings(max_examples=40)
@given(values=st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=9), has_limit=st.booleans())
def test_with_several_metrics_a_trial_that_enters_the_front_is_a_gain(values, has_limit):
    goal = Goal({"a": "minimize", "b": "maximize"}, (Limit("c", 2.0),) if has_limit else ())
    trials = []
    for number, each in enumerate(values):
        outcome = Outcome(dict(zip("abc", map(float, each), strict=True)))
        trials.append(finished(Trial(number, number, {"x": number}), {0: outcome}, goal))
    history = History(trials)
    kept = [trial for trial in trials if trial.keeps_limits]
    for trial in kept:
        earlier = [other for other in kept if other.number < trial.number]
        enters = trial in front([*earlier, trial]) and all(trial.losses != other.losses for other in earlier)
        assert (history.first(trial.number + 1).num_without_gain == 0) == enters
    last = max((trial.number for trial in kept), default=0)
    assert not kept or history.num_without_gain >= len(trials) - 1 - last


class Slow(AnyOrder):
    """Every report takes a minute."""

    def wait(self, timeout=None):
        self.now += 60.0
        return super().wait(timeout)


@pytest.mark.parametrize("name", ["random", "evolutionary"])
def test_minutes_cut_the_sequence_between_two_trials_and_may_be_raised(name):
    world = World(1)
    whole = facts(run(world, rules(name), 30))
    record, lengths = memory_record(Goal({"score": "minimize"}), TaskLayout()), []
    for minutes in (10, 10, 25, 1000):
        dispatcher = Slow(world, 2, 0)

        def tasks_of(trial, dispatcher=dispatcher):
            dispatcher.trials[trial.number] = trial
            return [Task(trial.number, 0, NOTHING)]

        its = rules(name)(tasks_of, world.cost_of)
        search(its, record, dispatcher, 30, minutes=minutes)
        assert [row[3:] for row in facts(record)] == [row[3:] for row in whole[: len(record.trials())]]
        assert is_over(its, record, 30, minutes)
        assert not is_over(its, record, 31, 10_000)
        lengths.append((len(record.trials()), record.ended.by))
    first, again, second, last = lengths
    assert first == again
    assert first[0] < second[0] < last[0] == 30
    assert [by for _, by in lengths] == ["minutes", "minutes", "minutes", "trials"]


def test_the_time_of_a_search_without_limit_counts_when_one_is_given_later():
    world, record = World(1), memory_record(Goal({"score": "minimize"}), TaskLayout())

    def searched(num_trials, dies_after=None):
        dispatcher = Slow(world, 2, 0, dies_after)

        def tasks_of(trial):
            dispatcher.trials[trial.number] = trial
            return [Task(trial.number, 0, NOTHING)]

        with contextlib.suppress(Killed):
            search(rules("random")(tasks_of, world.cost_of), record, dispatcher, num_trials)
        return dispatcher.now

    ended = searched(5)
    assert seconds_spent(record) == ended
    killed = searched(30, dies_after=8)
    assert seconds_spent(record) == pytest.approx(ended + killed, abs=60.0)


def test_the_space_may_end_a_search():
    small = make_strategy(STRATEGIES["grid"], space_from_dict({"x": [1, 2, 3]}), 0)
    record = run(
        World(0), lambda tasks_of, cost_of: Rules(strategy=small, tasks_of=tasks_of, cost_of=cost_of, lanes=2), 9
    )
    assert (len(record.trials()), record.ended.by) == (3, "space")
