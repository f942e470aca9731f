"""The clock: the same events, in the same order, as if everything had been known beforehand."""

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.engine.schedule.clock import Clock, Event, Key
from hpo.engine.schedule.rules import Rules
from hpo.engine.schedule.scheduler import Scheduler
from hpo.engine.strategies import make_strategy
from hpo.testing.simulated_tasks import NOTHING, AnyOrder, World, empty_record, facts, run
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Proposal, Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.training.tasks import Task
from tests.studies import shipped

SPACE = space_from_dict({"x": {"low": 0.0, "high": 1.0}})
TRIALS = 14


class OneByOne:
    """Proposes what another strategy does, as one whose points depend on what has ended."""

    learns = "by_trial"

    def __init__(self, strategy):
        self.propose = strategy.propose


def foreseen(world, strategy, lanes, num_trials):
    """Return events and what every proposal knew, in a world where the future is known: no reports, no waiting."""
    now, events, knowledge = 0.0, [], []
    upcoming, queue, known, missing, trials = [], [], [], {}, []
    running = 0
    while True:
        while running < lanes:
            if not queue:
                if len(trials) == num_trials:
                    break
                finished = [trials[number] for number in known]
                pending = [trial for trial in trials if trial.number not in known]
                (point,) = strategy.propose(History(finished), pending)
                trials.append(Trial(len(trials), len(trials), point))
                knowledge.append(list(known))
                missing[len(trials) - 1] = world.folds
                queue += [Key(len(trials) - 1, index) for index in range(world.folds)]
            key = queue.pop(0)
            running += 1
            trial = trials[key.trial]
            reports, outcome = world.units(trial, key.task)[0], world.outcome(trial, key.task)
            for units in sorted({*reports, outcome.units}):
                time = now + units * world.cost_of(trial)
                heapq.heappush(upcoming, Event(time, key, units, units == outcome.units))
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


@settings(max_examples=60)
@given(
    world=st.builds(
        World, seed=st.integers(0, 999), folds=st.integers(1, 3), failing=st.sampled_from([0, 0.3]),
        says_goes_on=st.booleans(), even=st.booleans(),
    ),
    lanes=st.integers(1, 6), slots=st.integers(1, 8), order=st.integers(0, 999),
)  # fmt: skip
def test_events_and_knowledge_are_those_of_a_world_whose_future_is_known(world, lanes, slots, order):
    strategy = OneByOne(make_strategy(shipped("random") | {"round_size": 1}, SPACE, world.seed))

    def rules(tasks_of, cost_of):
        return Rules(strategy=strategy, tasks_of=tasks_of, cost_of=cost_of, lanes=lanes)

    record = run(world, rules, TRIALS, slots, order)
    events, knowledge = foreseen(world, strategy, lanes, TRIALS)
    learned = [number for trial in record.trials() for number in trial.learned]
    sizes = [sum(len(t.learned) for t in record.trials()[: n + 1]) for n in range(TRIALS)]
    assert [learned[:size] for size in sizes] == knowledge
    # The record alone gives the same course once more.
    again = Scheduler(rules(lambda _: [], world.cost_of), record.copy(), TRIALS)
    assert next(again.advance(), None) is None
    assert again.events == [event for event in events if event.is_end]


def test_it_waits_for_what_may_come_first_and_for_nothing_else():
    clock = Clock()
    a, b = Key(0, 0), Key(1, 0)
    clock.begin(a, 1.0)
    clock.begin(b, 2.5)
    assert clock.advance() is None
    clock.report(a, 1.0)
    assert clock.advance() is None, "it may have been its last"
    clock.report(a, 2.0, goes_on=True)
    assert [clock.advance(), clock.advance(), clock.advance()] == [
        Event(1.0, a, 1.0, False), Event(2.0, a, 2.0, False), None,
    ]  # fmt: skip
    clock.report(a, 3.0, goes_on=True)
    assert clock.advance() is None, "the other may report at 2.5"
    clock.end(b, 1.0)
    assert clock.advance() == Event(2.5, b, 1.0, True)
    assert clock.advance() == Event(3.0, a, 3.0, False)
    clock.end(a, 4.0)
    assert clock.advance() == Event(4.0, a, 4.0, True)
    assert (clock.now, clock.num_running, clock.advance()) == (4.0, 0, None)


def test_at_the_same_time_the_lower_key_comes_first():
    clock = Clock()
    keys = [Key(0, 0), Key(0, 1), Key(1, 0)]
    for key in keys:
        clock.begin(key, 2.0)
    for key in reversed(keys):
        assert clock.advance() is None
        clock.end(key, 1.0)
    assert [clock.advance().key for _ in keys] == keys


def test_free_order_knows_what_has_finished_and_the_same_knowledge_gives_the_same_points():
    strategy = make_strategy(shipped("evolutionary"), SPACE, 0)
    world = World(0, folds=2)
    runs = []
    for order in range(3):
        script = []
        for dies_after in (None, 20):

            def rules(tasks_of, cost_of, script=script):
                return Rules(
                    strategy=strategy, tasks_of=tasks_of, cost_of=cost_of, lanes=1, order="free", script=script
                )

            record = run(world, rules, TRIALS, 4, order, dies_after=dies_after)
            record = run(world, rules, TRIALS, 4, order + 5, record=record)
            script = script or [trial.learned for trial in record.trials()]
            runs.append(facts(record))
    assert runs[0] != runs[2], "another order is another search"
    assert [runs[0], runs[2], runs[4]] == [runs[1], runs[3], runs[5]]


def test_a_strategy_that_proposes_nothing_is_asked_again_when_more_is_known():
    asked = []

    class Waiting:
        learns = "by_trial"

        def propose(self, known, pending):
            asked.append((len(known), len(pending)))
            return [Proposal({"x": len(known) + 0.5})] * (len(known) < 3) if not pending else []

    record = run(
        World(3), lambda tasks, cost: Rules(strategy=Waiting(), tasks_of=tasks, cost_of=cost, lanes=4), 99, slots=4
    )
    assert len(record.trials()) == 3
    assert asked == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)]


@pytest.mark.parametrize("order", ["clock", "free"])
def test_a_cost_that_changes_is_refused(order):
    costs = iter([1.0, 1.0, 2.0, 3.0])
    from hpo.errors import StudyError

    strategy = make_strategy(shipped("random"), SPACE, 0)
    with pytest.raises(StudyError, match="trial 1: describe_cost now returns 3, but the record holds 2"):
        run(
            World(0),
            lambda tasks, _: Rules(
                strategy=strategy, tasks_of=tasks, cost_of=lambda _: next(costs), lanes=2, order=order
            ),
            5,
            slots=2,
        )


def course_of(record, cost=1.0):
    strategy = make_strategy(shipped("random"), SPACE, 0)
    return Scheduler(
        Rules(
            strategy=strategy, tasks_of=lambda trial: [Task(trial.number, 0, NOTHING)], cost_of=lambda _: cost, lanes=1
        ),
        record,
        1,
    )


def test_a_second_attempt_that_reports_less_does_not_turn_the_clock_back():
    record = empty_record(World(0))
    course = course_of(record)
    (key,) = course.advance()
    task = course.task(key)
    for units in (1.0, 2.0, 3.0):
        course.take(TaskReport(task, point={}, units=units, goes_on=True))
    course.take(TaskReport(task, outcome=Outcome({"score": 1.0}, units=2.0)))
    assert list(course.advance()) == []
    assert record.trials()[0].outcomes[0].units == course.events[-1].units == 3.0


def test_an_interrupted_trial_keeps_the_cost_that_it_was_planned_with():
    """So an allowed change of the configuration can be continued with."""
    record = empty_record(World(0))
    (key,) = course_of(record).advance()
    assert list(course_of(record, cost=2.0).advance()) == [key]
    assert record.trials()[0].cost == 1.0


@settings(max_examples=20)
@given(seed=st.integers(0, 999), slots=st.integers(1, 9), order=st.integers(0, 999))
def test_no_worker_waits_where_the_trials_are_the_same_in_any_order(seed, slots, order):
    """Grid, random and quasi-random search keep every worker busy to the end, whatever the lanes."""
    strategy = make_strategy(shipped("random") | {"round_size": 1}, SPACE, seed)
    world, idle = World(seed), []

    class Watched(AnyOrder):
        def wait(self, timeout=None):
            idle.append(self.slots - len(self._running))
            return super().wait(timeout)

    def rules(tasks_of, cost_of):
        return Rules(strategy=strategy, tasks_of=tasks_of, cost_of=cost_of, lanes=2)

    run(world, rules, TRIALS, slots, order, dispatched_by=Watched)
    # None at first; in the end, as many as there is nothing left for, and never fewer.
    assert idle == sorted(idle)
    assert idle[0] == max(slots - TRIALS, 0)
