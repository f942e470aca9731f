"""Proposal, trial and outcome: the frozen values that the packages exchange."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from hpo.config.goals import SCALE
from hpo.config.goals import Direction as Direction
from hpo.trials.space.space import Point, point_key

PARAMETERS = "parameters"
"""The metric in which an objective says how many parameters its network has."""
State = Literal["running", "complete", "failed", "stopped"]


@dataclass(frozen=True)
class Outcome:
    """The result of a task.

    Attributes:
        metrics: numbers by name, including the study's metric; empty when the task failed.
        curve: one dict per step of the learning curve, in order; each holds `epoch` or `step` and numbers.
        seconds, started, worker: wall time on the worker, start since the epoch, and its process; 0 if it never ran.
        error, details: why it failed, as one line, and the traceback.
        stopped: where and why a rule stopped it; then the metrics hold the best score up to there.
        reached: the amount of training at its last report, counted from the start; None where it reported nothing.
        differs: where, repeated after an interruption, it reported something else than before; None where it did not.
        units: how many units of training it took, each of which costs the same; see `Objective.describe_cost`.
        attempt: 1 for the first try; more after workers died.
        notes: numbers and texts by name that the objective noted, and texts that it returned.
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
        """How many parameters the network has: the metric `parameters`; None where the objective returns none."""
        return self.metrics.get(PARAMETERS)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dict that `from_dict` reads."""
        # `dataclasses.asdict` copies deeply, which took a third of a study's time.
        return dict(vars(self))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**values)


@dataclass(frozen=True)
class TaskLayout:
    """The tasks of a trial: every fold, with every repeat (another seed); a hold-out is one fold."""

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
        """Return the repeat of a task: all folds of repeat 0 come first."""
        return index // self.folds

    def name(self, index: int) -> str:
        """Return a task's name in the record and in tables: `fold_0`, or `fold_0_repeat_1` with repeats."""
        repeat = f"_repeat_{self.repeat(index)}" if self.repeats > 1 else ""
        return f"fold_{self.fold(index)}{repeat}"


@dataclass(frozen=True)
class Proposal:
    """The proposal of a strategy that trains points by different amounts; a bare point is trained completely.

    The `amount` says how far to train, counted from the start (epochs; for a table, places on its curves). `continues`
    is the number of the earlier trial of the same point to continue, None = from the start, and `trained` its amount.
    `retry_of` is the number of the failed trial that it tries again.
    """

    point: Point
    amount: int | None = None
    continues: int | None = None
    trained: int = 0
    retry_of: int | None = None


@dataclass(frozen=True)
class Trial:
    """One point, evaluated.

    Attributes:
        number: from 0, in the order of proposal; never depends on the order of finishing.
        round: number of the proposal that it came from, from 0; points proposed together share it.
        amount, continues, trained, retry_of: how far it was trained, and from where; see `Proposal`.
        cost: cost of one unit of its training, on the study's clock.
        learned: numbers of the trials that had become known since the proposal before its own, in that order.
        outcomes: by the index of the task; a complete trial has all.
        state: `failed` when any task failed; `stopped` when a rule stopped any task, or a race gave it no more folds.
        score: mean of the study's (leading) metric over its tasks; None when it runs or failed.
        loss: the score with its sign turned so that lower is better; infinite when failed or stopped.
        other_losses: of a complete trial, the losses of the study's further metrics, in their order.
        excess: how far a complete trial is beyond the limits; 0 where it keeps them; see `Goal`.
        is_scaled: whether `study.scale` in its point is the number of a scale; False where it is a key of the user's
            own.
        losses_at: of a complete trial that was trained by an amount, what its loss would be had it ended at each place
            that all of its tasks have reported; see `hpo.trials.places`.
        ended_later: when it ended, of one that was trained further after the search; None where its outcomes say it.
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
        """The trial as it was when it was opened: without outcomes."""
        return replace(
            self, outcomes={}, state="running", score=None, loss=math.inf, other_losses=(), excess=0.0, losses_at={}
        )

    @property
    def reached(self) -> float | None:
        """The amount of training that all of its tasks have reached; None where one of them reported nothing."""
        amounts = [outcome.reached for outcome in self.outcomes.values()]
        return min((amount for amount in amounts if amount is not None), default=None) if None not in amounts else None

    @property
    def losses(self) -> tuple[float, ...]:
        """The losses of a complete trial, the leading metric's first."""
        return (self.loss, *self.other_losses)

    @property
    def keeps_limits(self) -> bool:
        """Whether it is complete and within the limits."""
        return self.state == "complete" and self.excess == 0

    @property
    def scale(self) -> int:
        """At which scale it is trained, from 1; 0 where the study has none."""
        scale = self.point.get(SCALE) if self.is_scaled else 0
        return scale if isinstance(scale, int) else 0

    @property
    def within_scale(self) -> Self:
        """It as a trial of the space of its scale."""
        return replace(self, point={key: value for key, value in self.point.items() if key != SCALE}, key="")

    @property
    def rank(self) -> tuple[int, int, float, float, int]:
        """The sort key of complete trials by the leading metric, the best first; see `rank`."""
        return rank(self.amount, self.loss, self.number, self.excess, self.scale)

    @property
    def error(self) -> str | None:
        """Why the trial failed: each error once, with the numbers of the tasks that failed with it."""
        tasks: dict[str, list[str]] = {}
        for index, outcome in sorted(self.outcomes.items()):
            if outcome.error:
                tasks.setdefault(outcome.error, []).append(str(index))
        return "; ".join(f"fold {', '.join(numbers)}: {error}" for error, numbers in tasks.items()) or None

    @property
    def stopped(self) -> str | None:
        """Where and why it was stopped, for one that was; of several tasks the first."""
        if self.state != "stopped":
            return None
        reasons = (outcome.stopped for _, outcome in sorted(self.outcomes.items()) if outcome.stopped)
        return next(reasons, f"after {len(self.outcomes)} folds")

    @property
    def seconds(self) -> float:
        """Wall seconds of all its tasks together."""
        return math.fsum(outcome.seconds for outcome in self.outcomes.values())

    @property
    def total_cost(self) -> float:
        """Cost of all its training so far, on the study's clock."""
        return math.fsum(self.cost * outcome.units for outcome in self.outcomes.values())

    @property
    def started(self) -> float | None:
        """When its first task started, in seconds since the epoch; None where none ran."""
        return min((outcome.started for outcome in self.outcomes.values() if outcome.worker), default=None)

    @property
    def ended(self) -> float | None:
        """When its last task ended, in seconds since the epoch; None where none ran."""
        if self.ended_later is not None:
            return self.ended_later
        return max((o.started + o.seconds for o in self.outcomes.values() if o.worker), default=None)

    @property
    def num_parameters(self) -> int | None:
        """How many parameters its networks have, that of its tasks with the most; None where none says it."""
        sizes = (outcome.num_parameters for outcome in self.outcomes.values())
        return max((int(size) for size in sizes if size is not None), default=None)

    def belonging(self, kind: Literal["metrics", "notes"]) -> dict[str, float | str]:
        """Return what its tasks returned or noted, by name: the mean of numbers, of texts each that differs."""
        by_name: dict[str, list[float | str]] = {}
        for _, outcome in sorted(self.outcomes.items()):
            given: Mapping[str, float | str] = getattr(outcome, kind)
            for name, value in given.items():
                by_name.setdefault(name, []).append(value)
        return {name: _together(values) for name, values in by_name.items()}

    def values(self, metric: str) -> list[float]:
        """Return the metric of every task that reported it, in the order of tasks."""
        return [o.metrics[metric] for _, o in sorted(self.outcomes.items()) if metric in o.metrics]

    def mean(self, metric: str) -> float:
        """Return the mean of the metric over the tasks that reported it, of which there must be one."""
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
    """Return for how many seconds at least one of the trials' tasks was trained: trained at once, counted once."""
    outcomes = (outcome for trial in trials for outcome in trial.outcomes.values() if outcome.worker)
    covered, reached = 0.0, -math.inf
    for start, end in sorted((outcome.started, outcome.started + outcome.seconds) for outcome in outcomes):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def loss_sign(direction: Direction) -> float:
    """Return what turns a score into a loss, and a loss into a score: -1 where a higher score is better, else 1."""
    return -1.0 if direction == "maximize" else 1.0


def loss_of(score: float, direction: Direction) -> float:
    """Return the score with its sign turned so that lower is better."""
    return loss_sign(direction) * score


def rank(
    amount: int | None, loss: float, number: int, excess: float = 0.0, scale: int = 0
) -> tuple[int, int, float, float, int]:
    """Return the sort key of complete trials, the best first.

    Of the largest scale, then trained furthest, then of the least excess over the limits, then of the least loss, then
    the earliest.
    """
    return -scale, -(amount or 0), excess, loss, number


def training_seed(study_seed: int, key: str, fold: int, repeat: int = 0) -> int:
    """Return the seed of one training, 0 to 2**31 - 1: a stable hash, so the same point always trains the same way."""
    text = f"{study_seed}|{key}|{fold}|{repeat}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") % 2**31
