"""Checks the main property of searches: the trials do not depend on workers, the order of reports, or crashes."""

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
    """Circumstances that must not change the trials.

    Attributes:
        slots: the number of workers.
        orders: two seeds for the order in which trainings report. The second seed is used after the budget is raised,
            or when the search is repeated from its record.
        dies_after: the number of calls of `wait` after which the driver is killed, unless the search ends earlier.
        budget: the budget of trials before it is raised.
    """

    slots: int
    orders: tuple[int, int]
    dies_after: int
    budget: int = _TRIALS


def check_law(
    make: Callable[[], Strategy], world: World, disturbed: Disturbance, lanes: int, stop_rule: StopRule | None = None
) -> None:
    """Check that workers, the order of reports, a crash and a raised budget do not change the trials.

    Args:
        make: returns a new strategy at each call.
        world: the results of the trainings.
        disturbed: the workers, the orders of reports, the crash and the raised budget of the check.
        lanes: the number of lanes of the clock.
        stop_rule: the median rule of the search; None = no rule.

    Raises:
        AssertionError: `disturbed` changes the trials, or a point is trained twice.
    """
    rules = _rules(make, lanes=lanes, order="clock", stop_rule=stop_rule)
    expected = facts(run(world, rules, _TRIALS))
    assert len({row[3:7] for row in expected}) == len(expected), "a point is trained twice"
    slots, budget = disturbed.slots, disturbed.budget
    states: States = {}
    record = run(world, rules, budget, slots, disturbed.orders[0], dies_after=disturbed.dies_after, states=states)
    resumed = facts(run(world, rules, budget, slots, disturbed.orders[0], record, states=states))
    assert resumed == expected[:budget], f"with {slots} workers and a crash, the trials differ from those of one worker"
    raised = facts(run(world, rules, _TRIALS, slots, disturbed.orders[1], record))
    assert raised == expected, (
        f"with a budget raised from {budget} to {_TRIALS}, the trials differ from those with a budget of {_TRIALS} at "
        f"the start"
    )


def check_free_order(
    make: Callable[[], Strategy], world: World, disturbed: Disturbance, stop_rule: StopRule | None = None
) -> None:
    """Check that a search in free order can be replayed from its record.

    In free order, the strategy gets the results as they arrive. For the arguments, see `check_law`.
    """
    rules, slots = partial(_rules, make, lanes=1, order="free", stop_rule=stop_rule), disturbed.slots
    free = rules()
    states: States = {}
    first = run(world, free, _TRIALS, slots, disturbed.orders[0], dies_after=disturbed.dies_after, states=states)
    first = run(world, free, _TRIALS, slots, disturbed.orders[0], first, states=states)
    script = [trial.learned for trial in first.trials()]
    again = run(world, rules(script=script), _TRIALS, slots + 1, disturbed.orders[1])
    assert facts(again) == facts(first), "a search in free order, repeated from its record, makes different trials"


def check_user_actions(
    make: Callable[[], Strategy], world: World, disturbed: Disturbance, lanes: int, stop_rule: StopRule | None = None
) -> None:
    """Check that each user action takes effect exactly once, and that the search can be repeated from its record.

    The driver is killed and started again once, unless the search ends earlier. Before and after this restart, a user
    acts at random times. The user adds up to two points, stops up to three running trials, and retries up to two failed
    trials. The user also raises the budget from `disturbed.budget` to 16 trials. For the arguments, see `check_law`.
    """
    rules, slots, first = _rules(make, lanes=lanes, order="clock", stop_rule=stop_rule), disturbed.slots, None
    states: States = {}
    user = _RandomUser(draw_untried(make().space, np.random.default_rng(world.seed + 1), (), 2), world.seed)
    user.record = first = empty_record(world)
    for dies_after in (disturbed.dies_after, None):
        budget = _TRIALS if any(action.do == "raise_budget" for action in first.actions) else disturbed.budget
        run(world, rules, budget, slots, disturbed.orders[0], first, dies_after, _Ticking, user, states)
    expected = facts(first)
    assert len({row[3:7] for row in expected}) == len(expected), "a point is tried twice after a user adds points"
    again = empty_record(world)
    again.write_added(first.added)
    again.actions = first.actions
    run(world, rules, disturbed.budget, slots + 1, disturbed.orders[1], again)
    repeated = facts(run(world, rules, _TRIALS, 1, 0, again))
    assert repeated == expected, "a search with user actions makes different trials when it is repeated from its record"


class _RandomUser:
    """A user who performs the actions of `check_user_actions` at random times.

    The user raises the budget once, at a random time. If all existing trials end before this time, the user raises the
    budget when the last of these trials has ended.
    """

    def __init__(self, points: Sequence[Point], seed: int) -> None:
        self.record: Record | None = None
        self._rng, self._points, self._is_raised = random.Random(seed), [*points], False
        self._num_stops = self._num_retries = 2

    def __call__(self, can_stop_trials: bool) -> Iterator[UserAction]:
        """Yield the user's new actions."""
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
        # Check that there are trials, because the first call comes before the first trial.
        if not self._is_raised and not running and self.record.trials():
            self._is_raised = True
            yield UserAction(Raise(_TRIALS))


def check_asking(
    make: Callable[[], Strategy], world: World, seed: int, budget: int = _TRIALS, stop_rule: StopRule | None = None
) -> None:
    """Check that the trials of ask-and-tell depend only on the calls.

    A single session must have the same trials as a series of sessions, each of which opens the record for one call.
    `seed` is the random seed for the order of the calls, and `budget` is the number of trials. Between the calls, a
    user adds up to two points and retries failed trials. For the other arguments, see `check_law`.
    """
    rules = partial(_rules, make, lanes=1, order="free", stop_rule=stop_rule, is_ask_and_tell=True)
    points = draw_untried(make().space, np.random.default_rng(seed), (), 2)
    expected, once = ask_and_tell(world, rules(), budget, seed, opens=False, points=points)
    again, often = ask_and_tell(world, rules(), budget, seed, opens=True, points=points)
    assert often == once, "ask and tell give other answers if each call has its own session"
    assert facts(again) == facts(expected), "ask and tell make other trials if each call has its own session"


class _Ticking(AnyOrder):
    """A dispatcher whose time advances by one second at each `wait`.

    The search asks for user actions once per second of this time, so it asks after each `wait`.
    """

    def wait(self, timeout: float | None = None) -> list[TaskReport]:
        """Advance the time by one second, and return the next messages of a random task; see `AnyOrder.wait`."""
        self.now += 1.0
        return super().wait(timeout)


def draw_cases(number: int) -> list[tuple[World, Disturbance, int]]:
    """Return `number` random test cases, the same at each call.

    Each case has a `World` (the results of the simulated trainings), a `Disturbance`, and the number of lanes of the
    clock.
    """
    rng = random.Random(0)
    cases = []
    for seed in range(number):
        says, names = rng.random() < 0.5, rng.random() < 0.5
        world = World(seed, rng.randint(1, 2), failing=rng.choice([0.0, 0.4]), says_goes_on=says, names_places=names)
        orders = (rng.randrange(1000), rng.randrange(1000))
        disturbed = Disturbance(rng.randint(2, 6), orders, rng.randint(1, 40), rng.randint(1, _TRIALS))
        cases.append((world, disturbed, rng.randint(1, 5)))
    return cases


def _rules(make: Callable[[], Strategy], **settings: Any) -> RulesOf:
    return lambda tasks_of, cost_of: Rules(strategy=make(), tasks_of=tasks_of, cost_of=cost_of, **settings)
