"""Tasks that train nothing: their costs, lengths and failures are drawn, and they report in any order, and twice."""

import contextlib
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.engine.asking import Asking
from hpo.engine.course.rules import Rules
from hpo.engine.dispatch.dispatcher import Gpus, TaskReport
from hpo.engine.loop import Hand, search
from hpo.engine.record.record import Record, memory_record
from hpo.engine.space.space import Point
from hpo.engine.training.payload import Payload, Task
from hpo.engine.training.worker import Limits
from hpo.engine.trials.goal import Goal
from hpo.engine.trials.trial import Outcome, TaskLayout, Trial
from hpo.errors import NoTrialError

NOTHING = Payload("", {}, "score", "minimize")
_SHARE_OF_HANDS = 0.1
RulesOf = Callable[[Callable[[Trial], Sequence[Task]], Callable[[Trial], float]], Rules]


@dataclass(frozen=True)
class World:
    """What every training would come to, by its trial's point and its index; a function of the seed alone."""

    seed: int
    folds: int = 1
    # The most reports of a task.
    longest: int = 4
    # The share of tasks that fail.
    failing: float = 0.0
    # Whether a report says that the training goes on.
    tells_more: bool = True
    # Whether all trials cost the same.
    even: bool = False
    # Of which `score` is the leading metric. Others, which do not depend on the fold, are 0 to 0.9.
    goal: Goal = Goal({"score": "minimize"})  # noqa: RUF009 -- frozen

    def _random(self, *key: Any) -> random.Random:
        return random.Random(f"{self.seed} {key}")

    def cost_of(self, trial: Trial) -> float:
        """Return the cost of a unit; of few digits, so that events at the same time are frequent."""
        return 1.0 if self.even else self._random("cost", trial.key).choice([0.5, 1.0, 1.5, 2.0, 3.25])

    def units(self, trial: Trial, index: int) -> tuple[list[float], float]:
        """Return the units after each report, and at the end."""
        rng = self._random("units", trial.key, trial.amount, index)
        done, reports = 0.0, []
        for _ in range(rng.randint(0, self.longest)):
            done += rng.choice([1, 1, 1, 2.5])
            reports.append(done)
        return reports, max(done + rng.choice([0, 0, 1]), 1)

    def outcome(self, trial: Trial, index: int) -> Outcome:
        """Return what a task comes to, if it is not stopped."""
        reports, total = self.units(trial, index)
        rng = self._random("outcome", trial.key, index)
        curve: list[dict[str, Any]] = [{"units": units, "score": round(rng.random(), 1)} for units in reports]
        rng = self._random("outcome", trial.key, index)
        if rng.random() < self.failing:
            return Outcome(curve=curve, units=max(reports, default=0) + 1, error="failed")
        metrics = {"score": round(rng.random(), 1)}
        for name in self.goal.names[1:]:
            metrics[name] = self._random(name, trial.key).randrange(10) / 10
        return Outcome(metrics, curve, units=total)

    def messages(self, trial: Trial, task: Task) -> Iterator[TaskReport]:
        """Yield everything that a worker says of the task, in order."""
        outcome = self.outcome(trial, task.index)
        limits = Limits(task.payload.limits or (), "score", "minimize")
        for place, point in enumerate(outcome.curve, start=1):
            units = point["units"]
            stopped = limits.stops(point)
            goes_on = self.tells_more and units < outcome.units and not stopped
            yield TaskReport(task, point=point, units=units, goes_on=goes_on)
            if stopped:
                assert limits.best is not None
                outcome = Outcome({"score": limits.best}, outcome.curve[:place], units=units, stopped=stopped)
                break
        yield TaskReport(task, outcome=outcome)


class AnyOrder:
    """A dispatcher whose workers go on in turns that are drawn; some of what was said is said again.

    After `dies_after` messages the driver is killed; None = it is not.
    """

    runs_here = True
    gpus = Gpus()
    now = 0.0

    def __init__(self, world: World, slots: int, seed: int, dies_after: int | None = None) -> None:
        self.slots = slots
        self._world = world
        self._rng = random.Random(seed)
        self._running: dict[tuple[int, int], deque[TaskReport]] = {}
        self._said: list[TaskReport] = []
        self._left = dies_after
        self.trials: dict[int, Trial] = {}
        self.trained: list[tuple[int, int]] = []

    def submit(self, task: Task) -> None:
        """Begin a task; there must be a slot."""
        assert len(self._running) < self.slots
        self.trained.append((task.trial, task.index))
        trial = self.trials[task.trial]
        self._running[task.trial, task.index] = deque(self._world.messages(trial, task))

    def wait(self, timeout: float | None = None) -> list[TaskReport]:  # noqa: ARG002 -- the same call as its siblings
        """Return one new message and up to two old ones; raises Killed after the last."""
        if self._left == 0:
            raise Killed
        self._left = None if self._left is None else self._left - 1
        key = self._rng.choice(sorted(self._running))
        report = self._running[key].popleft()
        if not self._running[key]:
            del self._running[key]
        self._said.append(report)
        return [report, *self._rng.sample(self._said, min(2, len(self._said)))]

    def drop(self, task: Task) -> None:
        """Let no worker go on with a task."""
        del self._running[task.trial, task.index]

    def save_and_end(self, seconds: float) -> list[TaskReport]:  # noqa: ARG002 -- the same call as its siblings
        """Return nothing."""
        return []

    def close(self) -> None:
        """Do nothing."""


class Killed(Exception):  # noqa: N818 -- no fault
    """The driver is gone."""


def empty_record(world: World) -> Record:
    """Return a record, in memory, of no trial."""
    return memory_record(world.goal, TaskLayout(world.folds))


def run(
    world: World,
    rules_of: RulesOf,
    num_trials: int,
    slots: int = 1,
    seed: int = 0,
    record: Record | None = None,
    dies_after: int | None = None,
    dispatched_by: type[AnyOrder] = AnyOrder,
    hand: Hand = lambda _: (),
) -> Record:
    """Run a search in a world until its budget is reached or its driver is killed, and return its record.

    `rules_of` returns the rules, from what returns a trial's tasks and what returns its cost; `record` is that of a
    search that is continued; `hand` yields what a hand has asked since the last call.
    """
    record = record or empty_record(world)
    dispatcher = dispatched_by(world, slots, seed, dies_after)

    def tasks_of(trial: Trial) -> list[Task]:
        dispatcher.trials[trial.number] = trial
        return [Task(trial.number, index, NOTHING) for index in range(world.folds)]

    with contextlib.suppress(Killed):
        search(rules_of(tasks_of, world.cost_of), record, dispatcher, num_trials, hand=hand)
    return record


def ask_and_tell(
    world: World, rules_of: RulesOf, num_trials: int, seed: int, opens: bool, points: Sequence[Point] = ()
) -> tuple[Record, list[str]]:
    """Ask for trials and tell what they come to in a world, in an order that is drawn; return the record, and answers.

    `opens`: whether the record is opened again before each call. `points` are given by a hand between the calls.
    `rules_of` as above, with a new strategy each time.
    """
    record, rng, answers, hand = empty_record(world), random.Random(seed), list[str](), [*points]

    def tasks_of(trial: Trial) -> list[Task]:
        return [Task(trial.number, 0, NOTHING)]

    asking = Asking(rules_of(tasks_of, world.cost_of), record, num_trials)
    for _ in range(4 * num_trials):
        if opens:
            asking = Asking(rules_of(tasks_of, world.cost_of), record, num_trials)
        if hand and rng.random() < _SHARE_OF_HANDS:
            asking.give(hand.pop())
            continue
        number = rng.choice([None, *sorted(asking.open)])
        if number is None:
            try:
                answers.append(f"asked {asking.ask().trial}")
            except NoTrialError as error:
                answers.append(str(error))
            continue
        outcome = world.outcome(record.trials()[number], 0)
        left = outcome.curve[len(asking.asked(number).curve) :]
        if left and not asking.stops(number):
            asking.report(number, left[0])
        elif asking.stops(number):
            asking.tell(number)
        else:
            asking.tell(number, outcome.metrics or None, outcome.error)
        answers.append(f"told {number} of {sorted(asking.open)}")
    return record, answers


def facts(record: Record) -> list[tuple[Any, ...]]:
    """Return what must be the same whatever the workers do."""
    return [
        (t.number, t.round, t.learned, t.key, t.amount, t.continues, t.cost, t.state, t.score) for t in record.trials()
    ]
