"""The law: the same trials for any number of workers, in any order of finishing, and after any crash."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hpo.engine.schedule.rules import Rules
from hpo.engine.schedule.stopping import StopRule
from hpo.engine.strategies import Strategy
from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.study.additions import failed_trials
from hpo.testing.simulated_tasks import AnyOrder, RulesOf, States, World, ask_and_tell, empty_record, facts, run
from hpo.trials.record.record import Record
from hpo.trials.record.user_actions import Add, Raise, Stop, UserAction
from hpo.trials.space.space import Point
from hpo.workers.dispatch.dispatcher import TaskReport

_TRIALS = 16


@dataclass(frozen=True)
class Disturbance:
    """What may not change a trial: workers, crashes, and a budget that is raised.

    Attributes:
        orders: seeds of the order in which trainings report, before and after the crash.
        dies_after: messages after which the driver is killed; it may have ended before.
    """

    slots: int
    orders: tuple[int, int]
    dies_after: int
    budget: int = _TRIALS


def check_law(
    make: Callable[[], Strategy], world: World, disturbed: Disturbance, lanes: int, stop_rule: StopRule | None = None
) -> None:
    """Check that neither workers, orders, crashes nor a raised budget change the trials: AssertionError where they do.

    `make` returns a new strategy each time; `lanes` are those of the virtual clock.
    """
    course = _rules(make, lanes=lanes, order="clock", stop_rule=stop_rule)
    expected = facts(run(world, course, _TRIALS))
    assert len({row[:4] for row in expected}) == len(expected), "a trial was made twice"
    slots, budget = disturbed.slots, disturbed.budget
    states: States = {}
    record = run(world, course, budget, slots, disturbed.orders[0], dies_after=disturbed.dies_after, states=states)
    resumed = facts(run(world, course, budget, slots, disturbed.orders[0], record, states=states))
    assert resumed == expected[:budget], f"after a crash, {slots} workers make other trials"
    raised = facts(run(world, course, _TRIALS, slots, disturbed.orders[1], record))
    assert raised == expected, f"with a budget raised from {budget}, {slots} workers make other trials"


def check_free_order(
    make: Callable[[], Strategy], world: World, disturbed: Disturbance, stop_rule: StopRule | None = None
) -> None:
    """Check that in free order the knowledge on record gives the same trials again; arguments as above."""
    rules, slots = partial(_rules, make, lanes=1, order="free", stop_rule=stop_rule), disturbed.slots
    free = rules()
    states: States = {}
    first = run(world, free, _TRIALS, slots, disturbed.orders[0], dies_after=disturbed.dies_after, states=states)
    first = run(world, free, _TRIALS, slots, disturbed.orders[0], first, states=states)
    script = [trial.learned for trial in first.trials()]
    again = run(world, rules(script=script), _TRIALS, slots + 1, disturbed.orders[1])
    assert facts(again) == facts(first), "in free order, other trials come from the same knowledge"


def check_user_actions(
    make: Callable[[], Strategy], world: World, disturbed: Disturbance, lanes: int, stop_rule: StopRule | None = None
) -> None:
    """Check that what a user does to a running search is done once, and that the record repeats it all.

    Arguments as above; before or after the crash two points are given, two running trials are stopped, two failed ones
    are retried, and the budget is raised from that of the disturbance.
    """
    course, slots, first = _rules(make, lanes=lanes, order="clock", stop_rule=stop_rule), disturbed.slots, None
    states: States = {}
    user = _RandomUser(draw_untried(make().space, np.random.default_rng(world.seed + 1), (), 2), world.seed)
    user.record = first = empty_record(world)
    for dies_after in (disturbed.dies_after, None):
        budget = _TRIALS if any(act.do == "raise_budget" for act in first.actions) else disturbed.budget
        run(world, course, budget, slots, disturbed.orders[0], first, dies_after, _Ticking, user, states)
    expected = facts(first)
    assert len({row[3:7] for row in expected}) == len(expected), "where a user gives points, one is tried twice"
    again = empty_record(world)
    again.write_added(first.added)
    again.actions = first.actions
    run(world, course, disturbed.budget, slots + 1, disturbed.orders[1], again)
    repeated = facts(run(world, course, _TRIALS, 1, 0, again))
    assert repeated == expected, "a search to which a user did something makes other trials from the same record"


class _RandomUser:
    """Asks now and then for what `check_user_actions` says, and at the latest when nothing runs any more."""

    def __init__(self, points: Sequence[Point], seed: int) -> None:
        self.record: Record | None = None
        self._rng, self._points, self._is_raised = random.Random(seed), [*points], False
        self._num_stops = self._num_retries = 2

    def __call__(self, can_stop_trials: bool) -> Iterator[UserAction]:
        """Yield what is asked at this look."""
        assert self.record is not None
        running = [trial.number for trial in self.record.trials() if trial.state == "running"]
        if not self._is_raised and running and can_stop_trials and self._rng.random() < 0.1:
            self._is_raised = True
            yield UserAction(Raise(_TRIALS))
            yield UserAction(Stop(self._rng.choice(running)))
        if self._points and self._rng.random() < 0.2:
            yield UserAction(Add(self._points.pop()))
        if self._num_retries and (failed := failed_trials(self.record)) and self._rng.random() < 0.2:
            self._num_retries -= 1
            trial = self._rng.choice(failed)
            yield UserAction(Add(trial.point, trial.number))
        if can_stop_trials and running and self._num_stops and self._rng.random() < 0.2:
            self._num_stops -= 1
            yield UserAction(Stop(self._rng.choice(running)))
        # Not at the first look, before any trial.
        if not self._is_raised and not running and self.record.trials():
            self._is_raised = True
            yield UserAction(Raise(_TRIALS))


def check_asking(
    make: Callable[[], Strategy], world: World, seed: int, budget: int = _TRIALS, stop_rule: StopRule | None = None
) -> None:
    """Check that trials that are asked for and told follow from the questions and answers alone.

    They must be the same in one session, and where the record is opened again between any two calls; `seed` draws the
    calls, between which a user gives two points. Arguments as above.
    """
    rules = partial(_rules, make, lanes=1, order="free", stop_rule=stop_rule, is_ask_and_tell=True)
    points = draw_untried(make().space, np.random.default_rng(seed), (), 2)
    expected, once = ask_and_tell(world, rules(), budget, seed, opens=False, points=points)
    again, often = ask_and_tell(world, rules(), budget, seed, opens=True, points=points)
    assert often == once, "opened again between two calls, a session answers otherwise"
    assert facts(again) == facts(expected), "opened again between two calls, a session makes other trials"


class _Ticking(AnyOrder):
    """A dispatcher with a clock: a second passes with each message, so that what a user gives is looked for."""

    def wait(self, timeout: float | None = None) -> list[TaskReport]:
        """Return messages, a second later."""
        self.now += 1.0
        return super().wait(timeout)


def draw_cases(number: int) -> list[tuple[World, Disturbance, int]]:
    """Return some worlds, with what disturbs a search there and its lanes; the same ones each time."""
    rng = random.Random(0)
    cases = []
    for seed in range(number):
        tells, names = rng.random() < 0.5, rng.random() < 0.5
        world = World(seed, rng.randint(1, 2), failing=rng.choice([0.0, 0.4]), tells_more=tells, names_places=names)
        orders = (rng.randrange(1000), rng.randrange(1000))
        disturbed = Disturbance(rng.randint(2, 6), orders, rng.randint(1, 40), rng.randint(1, _TRIALS))
        cases.append((world, disturbed, rng.randint(1, 5)))
    return cases


def _rules(make: Callable[[], Strategy], **settings: Any) -> RulesOf:
    return lambda tasks_of, cost_of: Rules(strategy=make(), tasks_of=tasks_of, cost_of=cost_of, **settings)
