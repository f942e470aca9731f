"""Simulated tasks with random costs, lengths and failures, and a dispatcher that delivers their reports in any order.

Some reports are delivered repeatedly. Tasks have checkpoints. After a worker or the driver dies, a task continues from
its checkpoint, or starts again if a report may be missing.
"""

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpo.engine.ask_and_tell import AskAndTell
from hpo.engine.loop import Callback, UserActions, search
from hpo.engine.schedule.rules import Rules
from hpo.errors import NoTrialError
from hpo.study.additions import failed_trials
from hpo.trials.goal import Goal
from hpo.trials.places import place_of
from hpo.trials.record.record import Record, memory_record
from hpo.trials.record.user_actions import Add
from hpo.trials.space.space import Point
from hpo.trials.trial import Outcome, TaskLayout, Trial
from hpo.workers.dispatch.dispatcher import Gpus, TaskReport
from hpo.workers.objective.plain_function import StateIsAhead
from hpo.workers.training.journal import Entry, Journal
from hpo.workers.training.reports import Reports
from hpo.workers.training.tasks import Payload, Task
from hpo.workers.training.worker import Limits

NOTHING = Payload("", {}, "score", "minimize")
_SHARE_OF_USER_ACTIONS, _SHARE_OF_DEATHS = 0.1, 0.05
RulesOf = Callable[[Callable[[Trial], Sequence[Task]], Callable[[Trial], float]], Rules]


@dataclass(frozen=True)
class World:
    """Determines the result of every simulated training.

    The result depends on the seed, on the trial's point and amount of training, and on the task's index.

    Attributes:
        seed: the random seed.
        folds: the number of folds.
        longest: the largest number of reports of a task.
        failing: the probability that a task fails.
        says_goes_on: whether reports say that the training continues.
        names_places: whether reports contain their epoch.
        even: whether one unit costs the same in all trials.
        goal: the goal, whose leading metric must be `score`. Other metrics have values from 0 to 0.9 that do not depend
            on the fold.
    """

    seed: int
    folds: int = 1
    longest: int = 4
    failing: float = 0.0
    says_goes_on: bool = True
    names_places: bool = True
    even: bool = False
    goal: Goal = Goal({"score": "minimize"})  # noqa: RUF009 -- frozen

    def _random(self, *key: Any) -> random.Random:
        return random.Random(f"{self.seed} {key}")

    def cost_of(self, trial: Trial) -> float:
        """Return the cost of one unit of a trial; only few different costs exist, so that many events coincide."""
        return 1.0 if self.even else self._random("cost", trial.key).choice([0.5, 1.0, 1.5, 2.0, 3.25])

    def units(self, trial: Trial, index: int) -> tuple[list[float], float]:
        """Return the number of completed units at each report, and at the end of the task."""
        rng = self._random("units", trial.key, trial.amount, index)
        done, reports = 0.0, []
        longest = self.longest if trial.amount is None else min(self.longest, trial.amount - trial.trained)
        for _ in range(rng.randint(0, longest)):
            done += rng.choice([1, 1, 1, 2.5])
            reports.append(done)
        return reports, max(done + rng.choice([0, 0, 1]), 1)

    def outcome(self, trial: Trial, index: int) -> Outcome:
        """Return the outcome that a task has if no rule stops the task early."""
        reports, total = self.units(trial, index)
        rng = self._random("outcome", trial.key, index)
        curve: list[dict[str, Any]] = [
            {"epoch": place, "units": units, "score": round(rng.random(), 1)}
            for place, units in enumerate(reports, start=trial.trained + 1)
        ]
        rng = self._random("outcome", trial.key, index)
        if rng.random() < self.failing:
            return Outcome(curve=curve, units=max(reports, default=0) + 1, error="failed")
        metrics = {"score": round(rng.random(), 1)}
        for name in self.goal.names[1:]:
            metrics[name] = self._random(name, trial.key).randrange(10) / 10
        return Outcome(metrics, curve, units=total)

    def messages(self, trial: Trial, task: Task, training: "SimulatedTraining") -> Iterator[TaskReport]:
        """Yield a worker's messages about a task in order; the reports of an interrupted attempt come first."""
        whole = self.outcome(trial, task.index)
        limits, curve = Limits(task.payload), list[Any]()
        for point, units in self._points(whole, task, training):
            curve.append(point)
            stopped = limits.stops(point)
            goes_on = self.says_goes_on and units < whole.units and not stopped
            yield TaskReport(task, point=point, units=units, goes_on=goes_on)
            if stopped:
                assert limits.best is not None
                yield TaskReport(task, outcome=Outcome({"score": limits.best}, curve, units=units, stopped=stopped))
                return
        yield TaskReport(task, outcome=replace(whole, curve=curve))

    def _points(self, whole: Outcome, task: Task, training: "SimulatedTraining") -> Iterator[tuple[Any, float]]:
        """Yield each point of a task's curve, with the number of units from the start of the task to the point.

        The points that an earlier attempt has reported come first.
        """
        reports, done = Reports(task.payload, training), 0.0

        def known() -> Iterator[tuple[Any, float]]:
            nonlocal done
            for entry in reports.take_known():
                done += entry.units
                yield entry.point, done

        def reported(point: Any) -> Any:
            return {name: value for name, value in point.items() if self.names_places or name != "epoch"}

        while True:
            try:
                # A training that continues a trial without a checkpoint first repeats the reports of that trial.
                for point in task.payload.earlier if reports.trained < task.payload.trained else ():
                    reports.take(reported(point))
                for point in whole.curve[training.num_saved :]:
                    # Save the checkpoint before reporting. If the worker dies in between, the checkpoint is ahead of
                    # the reports.
                    training.num_saved += 1
                    new = reports.take(reported(point))
                    yield from known()
                    if new is not None:
                        reports.add(new, point["units"] - done, None)
                        done = point["units"]
                        yield new, done
                reports.end(has_result=True)
                yield from known()
                return
            except StateIsAhead:
                reports.start_again()


class SimulatedTraining(Journal):
    """The checkpoint and the journal of a simulated training, in memory.

    The checkpoint is one integer: how many points of the learning curve the training has completed.
    """

    def __init__(self) -> None:
        self.num_saved = 0
        self.entries, self.is_whole = list[Entry](), False

    @property
    def has_state(self) -> bool:
        """Whether there is a checkpoint."""
        return self.num_saved > 0

    def state(self) -> str:
        """Return a text that identifies the current checkpoint of the training."""
        return str(self.num_saved)

    def begin(self) -> None:
        """Begin an attempt from the checkpoint."""
        self.is_whole = False

    def restart(self, place: float) -> None:
        """Begin an attempt without a checkpoint, and drop the reports after `place`.

        All reports of this trial itself are after `place`. If this trial continues an earlier trial, keep the earlier
        trial's reports, which end at `place`.
        """
        self.entries, self.num_saved = [entry for entry in self.entries if place_of(entry.point) <= place], 0

    def add(self, entry: Entry) -> None:
        """Add a report to the journal."""
        self.entries.append(entry)

    def end(self) -> None:
        """Mark the training as complete."""
        self.is_whole = True

    def close(self) -> None:
        """Do nothing, because everything is in memory."""


States = dict[tuple[int, int], SimulatedTraining]
"""The checkpoints and journals of trainings, by trial number and task index."""


class AnyOrder:
    """A dispatcher whose workers report in random order and repeat some of their messages.

    After `dies_after` calls of `wait`, the driver is killed; None = never. Sometimes a worker dies, and its task
    continues from the checkpoint in `states`.
    """

    runs_here = True
    gpus = Gpus()
    now = 0.0

    def __init__(
        self, world: World, slots: int, seed: int, dies_after: int | None = None, states: States | None = None
    ) -> None:
        self.slots = slots
        self._world = world
        self._rng = random.Random(seed)
        self._states: States = {} if states is None else states
        self._tasks: dict[tuple[int, int], Task] = {}
        self._running: dict[tuple[int, int], Iterator[TaskReport]] = {}
        self._messages: list[TaskReport] = []
        self._left = dies_after
        self.trials: dict[int, Trial] = {}
        self.trained: list[tuple[int, int]] = []

    def submit(self, task: Task) -> None:
        """Begin a task; there must be a free slot."""
        assert len(self._running) < self.slots
        self.trained.append((task.trial, task.index))
        self._begin(task)

    def _begin(self, task: Task) -> None:
        key = task.trial, task.index
        self._tasks[key] = task
        training = self._states.setdefault(key, SimulatedTraining())
        # Simulate that the last worker died after saving a checkpoint and before reporting.
        training.num_saved += training.num_saved > 0 and not training.is_whole and self._rng.random() < _SHARE_OF_DEATHS
        self._running[key] = self._world.messages(self.trials[task.trial], task, training)

    def wait(self, timeout: float | None = None) -> list[TaskReport]:  # noqa: ARG002 -- the same call as its siblings
        """Return the next message of a random task, and after it up to two repeated messages.

        The repeated messages are a random sample of all new messages so far, including the one of this call. After
        `dies_after` calls, every further call raises `Killed`.
        """
        if self._left == 0:
            raise Killed
        self._left = None if self._left is None else self._left - 1
        key = self._rng.choice(sorted(self._running))
        if self._rng.random() < _SHARE_OF_DEATHS:
            self._begin(self._tasks[key])
        report = next(self._running[key])
        if report.outcome is not None:
            del self._running[key]
        self._messages.append(report)
        return [report, *self._rng.sample(self._messages, min(2, len(self._messages)))]

    def drop(self, task: Task) -> int:
        """End a task, and return 0 in place of a worker's number: the workers of this dispatcher have no numbers."""
        del self._running[task.trial, task.index]
        return 0

    def save_and_end(self, seconds: float) -> list[TaskReport]:  # noqa: ARG002 -- the same call as its siblings
        """Return no outcome: a simulated training runs only during `wait`, so there is nothing to end."""
        return []

    def close(self) -> None:
        """Do nothing, because there are no workers to end."""


class Killed(Exception):  # noqa: N818 -- not an error
    """Raised when the simulated driver is killed."""


def empty_record(world: World) -> Record:
    """Return an empty record in memory, with the goal and the number of folds of `world`."""
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
    user_actions: UserActions = lambda _: (),
    states: States | None = None,
    callback: Callback | None = None,
) -> Record:
    """Run a search with simulated trainings until the search ends or its driver is killed; return the record.

    Args:
        world: the results of the trainings.
        rules_of: a function that returns the rules of the search. Its arguments are two functions: the first returns
            the tasks of a trial, the second the cost of one unit of a trial.
        num_trials: the budget of trials.
        slots: the number of workers.
        seed: the random seed for the order of reports.
        record: the record of the search to continue; None = start a new search.
        dies_after: the number of calls of `wait` after which the driver is killed; None = never.
        dispatched_by: the class of the dispatcher.
        user_actions: see `hpo.engine.loop.search`.
        states: the checkpoints and journals of the search to continue; None = there are none.
        callback: see `hpo.engine.loop.search`.
    """
    record = record or empty_record(world)
    dispatcher = dispatched_by(world, slots, seed, dies_after, states)

    def tasks_of(trial: Trial) -> list[Task]:
        dispatcher.trials[trial.number] = trial
        payload = replace(NOTHING, amount=trial.amount, trained=trial.trained)
        return [Task(trial.number, index, payload) for index in range(world.folds)]

    with contextlib.suppress(Killed):
        search(
            rules_of(tasks_of, world.cost_of),
            record,
            dispatcher,
            num_trials,
            user_actions=user_actions,
            callback=callback,
        )
    return record


def ask_and_tell(
    world: World, rules_of: RulesOf, num_trials: int, seed: int, opens: bool, points: Sequence[Point] = ()
) -> tuple[Record, list[str]]:
    """Run ask-and-tell with simulated trainings, and call its methods in a random order.

    Return the record, and one line of text for each call of `ask`, `report` or `tell`.

    Args:
        world: the results of the trainings.
        rules_of: see `run`. Each call of `rules_of` must return rules with a new strategy.
        num_trials: the budget of trials.
        seed: the random seed for the order of calls.
        opens: whether to make a new `AskAndTell` from the record before each call.
        points: the points that a user adds between the calls. After the last point, the user retries failed trials.
    """
    record, rng, answers, to_add = empty_record(world), random.Random(seed), list[str](), [*points]

    def tasks_of(trial: Trial) -> list[Task]:
        return [Task(trial.number, 0, replace(NOTHING, amount=trial.amount, trained=trial.trained))]

    asking = AskAndTell(rules_of(tasks_of, world.cost_of), record, num_trials)
    for _ in range(4 * num_trials):
        if opens:
            asking = AskAndTell(rules_of(tasks_of, world.cost_of), record, num_trials)
        failed = failed_trials(record)
        if (to_add or failed) and rng.random() < _SHARE_OF_USER_ACTIONS:
            asking.add_point(Add(to_add.pop()) if to_add else Add(failed[0].point, failed[0].number))
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
    """Return, for each trial, the attributes that must not depend on the workers."""
    return [
        (
            *(t.number, t.round, t.learned, t.key, t.amount, t.continues, t.retry_of),
            *(t.cost, t.state, t.score, t.total_cost),
            [list(outcome.curve) for _, outcome in sorted(t.outcomes.items())],
        )
        for t in record.trials()
    ]
