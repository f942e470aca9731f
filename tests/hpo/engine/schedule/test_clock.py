"""The clock: the same events, in the same order, as if everything had been known beforehand."""

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.engine.schedule.clock import Clock, Event, Key
from hpo.engine.schedule.scheduler import Scheduler
from hpo.engine.strategies import make_strategy
from hpo.errors import StudyError
from hpo.testing.simulated_tasks import NOTHING, AnyOrder, World, empty_record, run
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Proposal, Trial
from hpo.workers.training.tasks import Task
from tests.hpo.engine.made import rules_of
from tests.studies import shipped

SPACE, TRIALS = space_from_dict({"x": {"low": 0.0, "high": 1.0}}), 14


class OneByOne:
    """Proposes what another strategy does, as one whose points depend on what has ended."""

    learns = "by_trial"

    def __init__(self, strategy):
        self.propose = strategy.propose


def foreseen(world, strategy, lanes, num_trials):
    """Return events and what every proposal knew, in a world where the future is known: no reports, no waiting."""
    now, events, knowledge, running = 0.0, [], [], 0
    upcoming, queue, known, missing, trials = [], [], [], {}, []
    while True:
        while running < lanes:
            if not queue:
                if len(trials) == num_trials:
                    break
                finished = [trials[number] for number in known]
                (point,) = strategy.propose(History(finished), [trial for trial in trials if trial.number not in known])
                trials.append(Trial(len(trials), len(trials), point))
                knowledge.append(list(known))
                missing[len(trials) - 1] = world.folds
                queue += [Key(len(trials) - 1, index) for index in range(world.folds)]
            key = queue.pop(0)
            running += 1
            trial = trials[key.trial]
            reports, outcome = world.units(trial, key.task)[0], world.outcome(trial, key.task)
            for units in sorted({*reports, outcome.units}):
                heapq.heappush(upcoming, Event(now + units * world.cost_of(trial), key, units, units == outcome.units))
        if not upcoming:
            return events, knowledge
        event = heapq.heappop(upcoming)
        now = event.time
        events.append(event)
        if event.is_end:
            running -= 1
            missing[event.key.trial] -= 1
            if not missing[event.key.trial]:
                known.append(event.key.trial)


@settings(max_examples=30)
@given(
    world=st.builds(
        World, seed=st.integers(0, 999), folds=st.integers(1, 3), failing=st.sampled_from([0, 0.3]),
        says_goes_on=st.booleans(), even=st.booleans(),
    ),
    lanes=st.integers(1, 6), slots=st.integers(1, 8), order=st.integers(0, 999),
)  # fmt: skip
def test_events_and_knowledge_are_those_of_a_world_whose_future_is_known(world, lanes, slots, order):
    strategy = OneByOne(make_strategy(shipped("random") | {"round_size": 1}, SPACE, world.seed))
    rules = rules_of(strategy, lanes)
    record = run(world, rules, TRIALS, slots, order)
    events, knowledge = foreseen(world, strategy, lanes, TRIALS)
    learned = [number for trial in record.trials() for number in trial.learned]
    sizes = [sum(len(t.learned) for t in record.trials()[: n + 1]) for n in range(TRIALS)]
    assert [learned[:size] for size in sizes] == knowledge
    again = Scheduler(rules(lambda _: [], world.cost_of), record.copy(), TRIALS)
    assert next(again.advance(), None) is None
    assert again.events == [event for event in events if event.is_end]


def test_it_waits_for_what_may_come_first_and_for_nothing_else():
    clock, a, b = Clock(), Key(0, 0), Key(1, 0)
    clock.begin(a, 1.0)
    clock.begin(b, 2.5)
    assert clock.advance() is None
    clock.report(a, 1.0)
    assert clock.advance() is None, "it may have been its last"
    clock.report(a, 2.0, goes_on=True)
    assert [clock.advance() for _ in range(3)] == [Event(1.0, a, 1.0, False), Event(2.0, a, 2.0, False), None]
    clock.report(a, 3.0, goes_on=True)
    assert clock.advance() is None, "the other may report at 2.5"
    clock.end(b, 1.0)
    assert (clock.advance(), clock.advance()) == (Event(2.5, b, 1.0, True), Event(3.0, a, 3.0, False))
    clock.end(a, 4.0)
    assert clock.advance() == Event(4.0, a, 4.0, True)
    assert (clock.now, clock.num_running, clock.advance()) == (4.0, 0, None)
    assert clock.latest(a) == 0.0, "it has ended; after a raised budget, a training may run that has not begun here"


def test_a_strategy_that_proposes_nothing_is_asked_again_when_more_is_known():
    asked = []

    class Waiting:
        learns = "by_trial"

        def propose(self, known, pending):
            asked.append((len(known), len(pending)))
            return [Proposal({"x": len(known) + 0.5})] * (len(known) < 3) if not pending else []

    assert len(run(World(3), rules_of(Waiting(), lanes=4), 99, slots=4).trials()) == 3
    assert asked == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)]


def test_an_interrupted_trial_keeps_the_cost_that_it_was_planned_with():
    record, rules = empty_record(World(0)), rules_of(make_strategy(shipped("random"), SPACE, 0), 1)
    for cost in (1.0, 2.0):
        made = rules(lambda trial: [Task(trial.number, 0, NOTHING)], lambda _, cost=cost: cost)
        assert [*Scheduler(made, record, 1).advance()] == [Key(0, 0)]
    assert record.trials()[0].cost == 1.0


def test_a_strategy_that_proposes_otherwise_than_the_record_says_is_refused():
    first, fewer = shipped("random"), shipped("random") | {"round_size": 2}
    record = run(World(0), rules_of(make_strategy(first, SPACE, 0), 1), 3)
    says = r"record: trial 0 has the point .*, but the strategy now proposes .*: start a"
    with pytest.raises(StudyError, match=says):
        run(World(0), rules_of(make_strategy(first, SPACE, 1), 1), 5, record=record.copy())
    with pytest.raises(StudyError, match="record: round 0 has 3 trials, but the strategy now proposes 2 for it"):
        run(World(0), rules_of(make_strategy(fewer, SPACE, 0), 1), 5, record=record.copy())


@pytest.mark.parametrize("order", ["clock", "free"])
def test_a_cost_that_changes_is_refused(order):
    costs = iter([1.0, 1.0, 2.0, 3.0])
    rules = rules_of(make_strategy(shipped("random"), SPACE, 0), 2, order=order)
    with pytest.raises(StudyError, match="trial 1: describe_cost now returns 3, but the record holds 2"):
        run(World(0), lambda tasks_of, _: rules(tasks_of, lambda _: next(costs)), 5, slots=2)


@settings(max_examples=20)
@given(seed=st.integers(0, 999), slots=st.integers(1, 9), order=st.integers(0, 999))
def test_no_worker_waits_where_the_trials_are_the_same_in_any_order(seed, slots, order):
    strategy, idle = make_strategy(shipped("random") | {"round_size": 1}, SPACE, seed), []

    class Watched(AnyOrder):
        def wait(self, timeout=None):
            idle.append(self.slots - len(self._running))
            return super().wait(timeout)

    run(World(seed), rules_of(strategy, lanes=2), TRIALS, slots, order, dispatched_by=Watched)
    # None at first; in the end, as many as there is nothing left for, and never fewer.
    assert (idle, idle[0]) == (sorted(idle), max(slots - TRIALS, 0))
