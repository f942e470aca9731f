"""Tasks that train nothing: their costs, lengths and failures are drawn, and they report in any order, and twice."""

import contextlib
import random
from collections import deque
from dataclasses import dataclass

from hpo.engine.dispatch.dispatcher import Report
from hpo.engine.loop import search
from hpo.engine.record.record import memory_record
from hpo.engine.training.limits import Limits
from hpo.engine.training.payload import Payload, Task
from hpo.engine.trials.trial import Outcome, TaskLayout

NOTHING = Payload("", {}, "score", "minimize")


@dataclass(frozen=True)
class World:
    """What every training would come to, by its trial's point and its index; a function of the seed alone."""

    seed: int
    folds: int = 1
    longest: int = 4
    failing: float = 0.0
    tells_more: bool = True
    even: bool = False

    def _random(self, *key):
        return random.Random(f"{self.seed} {key}")

    def cost_of(self, trial):
        """Costs of few digits, so that events at the same time are frequent."""
        return 1.0 if self.even else self._random("cost", trial.key).choice([0.5, 1.0, 1.5, 2.0, 3.25])

    def units(self, trial, index):
        """The units after each report, and at the end."""
        rng = self._random("units", trial.key, trial.amount, index)
        done, reports = 0, []
        for _ in range(rng.randint(0, self.longest)):
            done += rng.choice([1, 1, 1, 2.5])
            reports.append(done)
        return reports, max(done + rng.choice([0, 0, 1]), 1)

    def outcome(self, trial, index):
        reports, total = self.units(trial, index)
        rng = self._random("outcome", trial.key, index)
        curve = [{"units": units, "score": round(rng.random(), 1)} for units in reports]
        rng = self._random("outcome", trial.key, index)
        if rng.random() < self.failing:
            return Outcome(curve=curve, units=max(reports, default=0) + 1, error="failed")
        return Outcome({"score": round(rng.random(), 1)}, curve, units=total)

    def messages(self, trial, task):
        """Everything that a worker says of the task, in order."""
        outcome = self.outcome(trial, task.index)
        limits = Limits(task.payload.limits or (), "score", "minimize")
        for place, point in enumerate(outcome.curve, start=1):
            units = point["units"]
            stopped = limits.stops(point)
            goes_on = self.tells_more and units < outcome.units and not stopped
            yield Report(task, point=point, units=units, goes_on=goes_on)
            if stopped:
                outcome = Outcome({"score": limits.best}, outcome.curve[:place], units=units, stopped=stopped)
                break
        yield Report(task, outcome=outcome)


class AnyOrder:
    """A dispatcher whose workers go on in turns that are drawn; some of what was said is said again."""

    runs_here = True
    now = 0.0

    def __init__(self, world, slots, seed, dies_after=None):
        self.slots = slots
        self._world = world
        self._rng = random.Random(seed)
        self._running = {}
        self._said = []
        self._left = dies_after
        self.trials = {}
        self.trained = []

    def submit(self, task):
        assert len(self._running) < self.slots
        self.trained.append((task.trial, task.index))
        trial = self.trials[task.trial]
        self._running[task.trial, task.index] = deque(self._world.messages(trial, task))

    def wait(self, timeout=None):
        if self._left == 0:
            raise Killed
        self._left = None if self._left is None else self._left - 1
        key = self._rng.choice(sorted(self._running))
        report = self._running[key].popleft()
        if not self._running[key]:
            del self._running[key]
        self._said.append(report)
        return [report, *self._rng.sample(self._said, min(2, len(self._said)))]

    def close(self):
        pass


class Killed(Exception):  # noqa: N818
    """The driver is gone."""


def empty_record(world):
    return memory_record("score", "minimize", TaskLayout(world.folds))


def run(world, rules_of, num_trials, slots=1, seed=0, record=None, dies_after=None, dispatched_by=AnyOrder):
    """Run a search in a world, and return its record.

    `rules_of(tasks_of, cost_of)` returns the rules.
    """
    record = record or empty_record(world)
    dispatcher = dispatched_by(world, slots, seed, dies_after)

    def tasks_of(trial):
        dispatcher.trials[trial.number] = trial
        return [Task(trial.number, index, NOTHING) for index in range(world.folds)]

    with contextlib.suppress(Killed):
        search(rules_of(tasks_of, world.cost_of), record, dispatcher, num_trials)
    return record


def told(record):
    """Return what must be the same whatever the workers do."""
    return [
        (t.number, t.round, t.learned, t.key, t.amount, t.continues, t.cost, t.state, t.score) for t in record.trials()
    ]
