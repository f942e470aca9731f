"""Proposals, trials and outcomes: immutable values that all packages exchange."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from hpo.config.goals import SCALE
from hpo.config.goals import Direction as Direction
from hpo.trials.space.space import Point, point_key

PARAMETERS = "parameters"
"""The name under which an objective returns the number of parameters of its network."""
State = Literal["running", "complete", "failed", "stopped"]


@dataclass(frozen=True)
class Outcome:
    """The result of a task.

    Attributes:
        metrics: the numbers that the task returned, by name, including the study's metric; empty if the task failed.
        curve: the points of the learning curve in order; each point holds `epoch` or `step`, and reported numbers.
        seconds: the wall time on the worker, or the duration that the objective returned.
        started: the start of the task in seconds since the epoch; 0 if the start is unknown, as after a worker's death.
        worker: the process id of the worker; with simulated workers and with ask-and-tell, the number of the worker. 0
            if no worker returned the outcome.
        error: why the task failed, as one line; None = the task did not fail.
        details: the traceback of a failure, and the last lines of the task's output; None if there is neither.
        stopped: where and why a rule or a user stopped the task; None = the task was not stopped. `metrics` of a
            stopped task holds only the best score before the stop; it is empty if there is no score.
        reached: the amount of training at the last report, counted from the start; None = there are no reports.
        differs: where the reports differ from those before an interruption; None = they do not differ.
        units: how many units of training the task took. All units of a trial cost the same; see
            `Objective.describe_cost`.
        attempt: the number of the attempt that gave this outcome, from 1. The number is above 1 if earlier attempts
            ended because the worker died, or because its node was lost or shut down.
        notes: the numbers and texts that the objective noted, by name, and the texts that the objective returned.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    curve: Sequence[Mapping[str, float]] = ()
    seconds: float = 0.0
    error: str | None = None
    units: float = 1.0
    attempt: int = 1
    started: float = 0.0
    worker: int = 0
    details: str | None = None
    stopped: str | None = None
    reached: float | None = None
    differs: str | None = None
    notes: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def num_parameters(self) -> float | None:
        """The number of parameters of the network; None if the objective did not return it."""
        return self.metrics.get(PARAMETERS)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as a JSON-able dict; `Outcome(**values)` reads it."""
        # `dataclasses.asdict` copies deeply, which would take a third of a study's time.
        return dict(vars(self))


@dataclass(frozen=True)
class TaskLayout:
    """The tasks of a trial: one for each combination of fold and repeat.

    Repeats train on the same fold with different seeds. A hold-out split counts as one fold.
    """

    folds: int = 1
    repeats: int = 1

    @property
    def size(self) -> int:
        """The number of tasks per trial."""
        return self.folds * self.repeats

    def fold(self, index: int) -> int:
        """Return the fold of a task."""
        return index % self.folds

    def repeat(self, index: int) -> int:
        """Return the repeat of a task; the tasks of repeat 0, one per fold, come first."""
        return index // self.folds

    def name(self, index: int) -> str:
        """Return a task's name in the record and in tables: `fold_0`, or `fold_0_repeat_1` with several repeats."""
        repeat = f"_repeat_{self.repeat(index)}" if self.repeats > 1 else ""
        return f"fold_{self.fold(index)}{repeat}"


@dataclass(frozen=True)
class Proposal:
    """A proposed point, and the amount to train it. Only strategies that choose amounts of training need this class.

    Attributes:
        point: the point.
        amount: the amount of training to reach, counted from the start, such as a number of epochs. For an objective
            that is a table, the amount counts places on the learning curves. None = a full training.
        continues: the number of the earlier trial to continue, which has the same point; None = train from the start.
        trained: the amount of training of the continued trial; 0 = train from the start.
        retry_of: the number of the failed trial that this proposal retries; None = it is not a retry.
    """

    point: Point
    amount: int | None = None
    continues: int | None = None
    trained: int = 0
    retry_of: int | None = None


@dataclass(frozen=True)
class Trial:
    """The evaluation of a point.

    Attributes:
        number: the number of the trial, from 0, in the order of proposal. The number does not depend on the order in
            which trials end. Imported trials have numbers below 0.
        round: the number of the round, from 0. A round consists of the points that the strategy proposed together.
        point: the point.
        outcomes: the outcomes by task index; a complete trial has an outcome for every task.
        state: `failed` if a task failed; otherwise `stopped` if a rule or a user stopped the trial or one of its tasks.
        score: the mean of the (leading) metric over the tasks that have it. None if the trial is running or has failed,
            or if the trial was stopped before its first score.
        loss: the score, negated if higher is better; infinite unless the trial is complete.
        key: the identity of the point; see `point_key`.
        amount, continues, trained, retry_of: see `Proposal`.
        cost: the cost of one unit of the trial's training, on the study's clock.
        learned: the trials whose results the strategy got after the opening of the previous trial, and before the
            opening of this trial. Each trial is given by its `number`. The order is the order of the results.
        ended_later: the end (in seconds since the epoch) of a training that continued the trial after the search; None
            = there was no such training.
        other_losses: a complete trial's loss in each metric but the leading one, in the order of the metrics.
        excess: how far a complete trial is beyond the limits; 0 = within all limits; see `Goal`.
        is_scaled: whether `study.scale` in the point is the number of a scale; False if `study.scale` is a key of the
            user's own search space.
        losses_at: for a complete trial with an amount, its loss by place: the loss that the trial would have if its
            training had ended there. Places that only some of the tasks have reported are left out; see
            `hpo.trials.places`.
    """

    number: int
    round: int
    point: Point
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    state: State = "running"
    score: float | None = None
    loss: float = math.inf
    key: str = ""
    amount: int | None = None
    continues: int | None = None
    trained: int = 0
    retry_of: int | None = None
    cost: float = 1.0
    learned: tuple[int, ...] = ()
    ended_later: float | None = None
    other_losses: tuple[float, ...] = ()
    excess: float = 0.0
    is_scaled: bool = True
    losses_at: Mapping[float, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", point_key(self.point))

    @property
    def as_opened(self) -> Self:
        """The trial as it was when it was opened, without its outcomes."""
        return replace(
            self, outcomes={}, state="running", score=None, loss=math.inf, other_losses=(), excess=0.0, losses_at={}
        )

    @property
    def reached(self) -> float | None:
        """The smallest amount of training that an ended task has reached.

        None if no task has ended, or if an ended task has no reports.
        """
        amounts = [outcome.reached for outcome in self.outcomes.values()]
        return min((amount for amount in amounts if amount is not None), default=None) if None not in amounts else None

    @property
    def losses(self) -> tuple[float, ...]:
        """The losses of a complete trial, one per metric, the leading metric's loss first."""
        return (self.loss, *self.other_losses)

    @property
    def keeps_limits(self) -> bool:
        """Whether the trial is complete and within the limits."""
        return self.state == "complete" and self.excess == 0

    @property
    def scale(self) -> int:
        """The number of the trial's scale, from 1; 0 if the study has no scales."""
        scale = self.point.get(SCALE) if self.is_scaled else 0
        return scale if isinstance(scale, int) else 0

    @property
    def within_scale(self) -> Self:
        """A copy of the trial without the scale's key in its point, as in a study without scales."""
        return replace(self, point={key: value for key, value in self.point.items() if key != SCALE}, key="")

    @property
    def rank(self) -> tuple[int, int, float, float, int]:
        """The key that sorts complete trials by the leading metric, the best first; see the function `rank`."""
        return rank(self.amount, self.loss, self.number, self.excess, self.scale)

    @property
    def error(self) -> str | None:
        """Why the trial failed; None = no failure.

        The text lists each different error once, after the indices of the tasks that failed with it: `fold 0, 2: ...`.
        """
        tasks: dict[str, list[str]] = {}
        for index, outcome in sorted(self.outcomes.items()):
            if outcome.error:
                tasks.setdefault(outcome.error, []).append(str(index))
        return "; ".join(f"fold {', '.join(numbers)}: {error}" for error, numbers in tasks.items()) or None

    @property
    def stopped(self) -> str | None:
        """Where the trial was stopped; None = the trial was not stopped.

        If a task was stopped, the text is `Outcome.stopped` of the first stopped task, and also says why. If the trial
        was stopped between tasks, the text has the number of ended tasks, such as `after 2 folds`.
        """
        if self.state != "stopped":
            return None
        reasons = (outcome.stopped for _, outcome in sorted(self.outcomes.items()) if outcome.stopped)
        return next(reasons, f"after {len(self.outcomes)} folds")

    @property
    def seconds(self) -> float:
        """The sum of the wall times of all tasks."""
        return math.fsum(outcome.seconds for outcome in self.outcomes.values())

    @property
    def total_cost(self) -> float:
        """The cost of all training of the trial so far, on the study's clock."""
        return math.fsum(self.cost * outcome.units for outcome in self.outcomes.values())

    @property
    def started(self) -> float | None:
        """The start of the trial's first task in seconds since the epoch.

        Outcomes without a worker are ignored. None if no worker has returned an outcome.
        """
        return min((outcome.started for outcome in self.outcomes.values() if outcome.worker), default=None)

    @property
    def ended(self) -> float | None:
        """The end of the trial's last training in seconds since the epoch.

        Outcomes without a worker are ignored. None if no worker has returned an outcome.
        """
        if self.ended_later is not None:
            return self.ended_later
        return max((o.started + o.seconds for o in self.outcomes.values() if o.worker), default=None)

    @property
    def num_parameters(self) -> int | None:
        """The network's number of parameters: the largest value over the tasks; None if no task returned a value."""
        sizes = (outcome.num_parameters for outcome in self.outcomes.values())
        return max((int(size) for size in sizes if size is not None), default=None)

    def belonging(self, kind: Literal["metrics", "notes"]) -> dict[str, float | str]:
        """Return the metrics or the notes of the tasks, combined by name.

        Numbers become their mean. If some values are texts, all different values are joined into one text.
        """
        by_name: dict[str, list[float | str]] = {}
        for _, outcome in sorted(self.outcomes.items()):
            named: Mapping[str, float | str] = getattr(outcome, kind)
            for name, value in named.items():
                by_name.setdefault(name, []).append(value)
        return {name: _together(values) for name, values in by_name.items()}

    def values(self, metric: str) -> list[float]:
        """Return the value of a metric for every task that returned it, in the order of tasks."""
        return [o.metrics[metric] for _, o in sorted(self.outcomes.items()) if metric in o.metrics]

    def mean(self, metric: str) -> float:
        """Return the mean of a metric over the tasks that returned it; there must be at least one such task."""
        values = self.values(metric)
        return math.fsum(values) / len(values)


def _together(values: Sequence[float | str]) -> float | str:
    numbers = [value for value in values if not isinstance(value, str)]
    if len(values) == 1:
        return values[0]
    if len(numbers) == len(values):
        return math.fsum(numbers) / len(numbers)
    return "; ".join(dict.fromkeys(map(str, values)))


def seconds_trained(trials: Iterable[Trial]) -> float:
    """Return for how many seconds at least one task was being trained; time shared by parallel tasks counts once.

    Outcomes that no worker returned do not count.
    """
    outcomes = (outcome for trial in trials for outcome in trial.outcomes.values() if outcome.worker)
    covered, reached = 0.0, -math.inf
    for start, end in sorted((outcome.started, outcome.started + outcome.seconds) for outcome in outcomes):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def loss_sign(direction: Direction) -> float:
    """Return the factor that turns scores into losses and back: -1 if a higher score is better, else 1."""
    return -1.0 if direction == "maximize" else 1.0


def loss_of(score: float, direction: Direction) -> float:
    """Return the loss of a score: the score, negated if higher is better."""
    return loss_sign(direction) * score


def rank(
    amount: int | None, loss: float, number: int, excess: float = 0.0, scale: int = 0
) -> tuple[int, int, float, float, int]:
    """Return the key that sorts complete trials, the best first.

    The order is by scale (the largest first), by amount (the largest first), by excess over the limits, by loss, and by
    number.
    """
    return -scale, -(amount or 0), excess, loss, number


def training_seed(study_seed: int, key: str, fold: int, repeat: int = 0) -> int:
    """Return the seed of a training, from 0 to 2**31 - 1.

    The seed is a stable hash of the arguments, so that a point is always trained in the same way.
    """
    text = f"{study_seed}|{key}|{fold}|{repeat}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") % 2**31
