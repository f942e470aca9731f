"""What a search is for: metrics, each with the direction in which it is better, and limits that are kept."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from hpo.config.goals import SCALE, bounds_of
from hpo.trials.places import Point, place_of
from hpo.trials.reported_values import LARGEST
from hpo.trials.space import space
from hpo.trials.trial import Direction, Outcome, Trial, loss_of, loss_sign


@dataclass(frozen=True)
class Limit:
    """A bound that a chosen trial keeps: the most that a metric may be, or the least."""

    metric: str
    bound: float
    is_least: bool = False

    def beyond(self, value: float) -> float:
        """Return how far a value is beyond the bound; below 0 is within."""
        return self.bound - value if self.is_least else value - self.bound

    def excess(self, value: float) -> float:
        """Return how far a value is beyond the bound, as a share of the bound's size (of 1, if it is 0); 0 within."""
        return min(max(0.0, self.beyond(value)) / (abs(self.bound) or 1.0), LARGEST)

    def __str__(self) -> str:
        """As people write it: `parameters <= 1e+06`."""
        return f"{self.metric} {'>=' if self.is_least else '<='} {self.bound:g}"


@dataclass(frozen=True)
class Goal:
    """What a search is for.

    With several metrics a trial is better than another where it dominates it: no metric is worse, and one is better.
    The first metric is the leading one: `score` and `loss` of a trial are its, and so are learning curves, the choice
    of a training's best epoch, and what stops a training early. Limits are no metrics: of a trial that exceeds one only
    the excess counts (Deb 2000, "An efficient constraint handling method for genetic algorithms": what is feasible is
    better than what is not, and of two that are not the one of less excess).
    """

    metrics: Mapping[str, Direction]
    limits: Sequence[Limit] = ()
    # The scale for which a winner is sought; 0 where there are none.
    target: int = 0
    # Which reported value counts of a training that returns nothing: the best, or the last.
    takes: Literal["best", "last"] = "best"
    # What every task returns besides; nothing is searched or chosen by it.
    measured: Sequence[str] = ()

    @property
    def metric(self) -> str:
        """The leading metric."""
        return next(iter(self.metrics))

    @property
    def direction(self) -> Direction:
        """Which way the leading metric is better."""
        return self.metrics[self.metric]

    @property
    def is_single(self) -> bool:
        """Whether one metric alone decides."""
        return len(self.metrics) == 1 and not self.limits

    @property
    def decisive(self) -> tuple[str, ...]:
        """What decides which of two trials is better: the metrics in their order, then what has a limit."""
        return tuple(dict.fromkeys([*self.metrics, *(limit.metric for limit in self.limits)]))

    @property
    def names(self) -> tuple[str, ...]:
        """What every task must return: the metrics in their order, what has a limit, and what is measured besides."""
        return tuple(dict.fromkeys([*self.decisive, *self.measured]))

    def losses(self, values: Mapping[str, float]) -> tuple[float, ...]:
        """Return the metrics' values in their order, their signs turned so that lower is better."""
        return tuple(loss_of(values[name], direction) for name, direction in self.metrics.items())

    def scores(self, losses: Sequence[float]) -> dict[str, float]:
        """Return the values by metric of what `losses` returned."""
        return {name: loss_sign(way) * loss for (name, way), loss in zip(self.metrics.items(), losses, strict=True)}

    def excess(self, values: Mapping[str, float]) -> float:
        """Return the sum of how far the values are beyond the limits; 0 where all are kept."""
        return math.fsum(limit.excess(values[limit.metric]) for limit in self.limits)

    def trial(self, number: int, round_number: int, point: space.Point, **others: Any) -> Trial:
        """Return a trial of a study with this goal, with these `others` of its attributes."""
        return Trial(number, round_number, point, is_scaled=self.target > 0 or SCALE not in point, **others)

    def beyond(self, trial: Trial) -> dict[str, float]:
        """Return how far a complete trial is beyond each limit, by its words; below 0 is within. Of others nothing."""
        limits = self.limits if trial.state == "complete" else ()
        return {str(limit): limit.beyond(trial.mean(limit.metric)) for limit in limits}


class Sought(Protocol):
    """What `goal_of` reads: the section `study`, of a search or of a single training."""

    @property
    def metric(self) -> str: ...  # noqa: D102
    @property
    def direction(self) -> Direction: ...  # noqa: D102
    @property
    def metrics(self) -> Mapping[str, Direction] | None: ...  # noqa: D102
    @property
    def limits(self) -> Mapping[str, float | dict[str, float]] | None: ...  # noqa: D102
    @property
    def limits_after(self) -> Mapping[str, float | dict[str, float]] | None: ...  # noqa: D102
    @property
    def measured(self) -> Sequence[str] | None: ...  # noqa: D102
    @property
    def scales(self) -> Sequence[Mapping[str, Any]] | None: ...  # noqa: D102
    @property
    def score(self) -> Literal["best", "last"]: ...  # noqa: D102


def goal_of(study: Sought) -> Goal:
    """Return what a study is for, by its section `study`: by limits that were given after its search, where some were.

    By it trials are judged, and the winner is chosen.
    """
    # What its search has a limit on was returned by all trials, too.
    measured = [*(study.limits or ()), *(study.measured or ())]
    return _goal(study, study.limits if study.limits_after is None else study.limits_after, measured)


def searched_goal(study: Sought) -> Goal:
    """Return what a study's search is for: by it points are proposed, and trainings stopped."""
    return _goal(study, study.limits, study.measured or ())


def _goal(study: Sought, limited: Mapping[str, float | dict[str, float]] | None, measured: Sequence[str]) -> Goal:
    metrics = study.metrics or {study.metric: study.direction}
    limits = [
        Limit(name, bound, is_least)
        for name, given in (limited or {}).items()
        for bound, is_least in bounds_of(given, metrics.get(name))
    ]
    return Goal(metrics, tuple(limits), len(study.scales or ()), study.score, tuple(measured))


def finished(
    trial: Trial,
    outcomes: Mapping[int, Outcome],
    goal: Goal,
    is_stopped: bool = False,
    earlier: Callable[[int], Sequence[Point]] = lambda _: (),
) -> Trial:
    """Return the trial with its outcomes: failed if any task failed; else complete (or stopped) with its score.

    `earlier` returns the points of the trainings that a task continues.
    """
    done = replace(trial, outcomes=dict(sorted(outcomes.items())))
    if any(outcome.error for outcome in outcomes.values()):
        return replace(done, state="failed")
    if is_stopped or any(outcome.stopped for outcome in outcomes.values()):
        # A mean over fewer folds, or of less training, does not compare: for strategies the loss stays infinite. One
        # that a user has stopped may have reported nothing.
        return replace(done, state="stopped", score=done.mean(goal.metric) if done.values(goal.metric) else None)
    values = {name: done.mean(name) for name in goal.names}
    losses = goal.losses(values)
    return replace(
        done,
        state="complete",
        score=values[goal.metric],
        loss=losses[0],
        other_losses=losses[1:],
        excess=goal.excess(values),
        losses_at={} if trial.amount is None else _losses_at(outcomes, goal, earlier),
    )


def judged_by(goal: Goal, trial: Trial) -> Trial:
    """Return a trial as judged by the limits of a goal; its losses are the same."""
    if trial.state != "complete":
        return trial
    return replace(trial, excess=goal.excess({limit.metric: trial.mean(limit.metric) for limit in goal.limits}))


def losses_by_place(points: Iterable[Point], goal: Goal) -> dict[float, float]:
    """Return the leading metric's loss by place had a training ended there: the best so far, or that of the place."""
    losses, best = dict[float, float](), math.inf
    for point in points:
        if goal.metric in point:
            loss = loss_of(point[goal.metric], goal.direction)
            best = loss if goal.takes == "last" else min(best, loss)
        losses[place_of(point)] = best
    return losses


def _losses_at(
    outcomes: Mapping[int, Outcome], goal: Goal, earlier: Callable[[int], Sequence[Point]]
) -> dict[float, float]:
    tasks = [losses_by_place([*earlier(index), *outcome.curve], goal) for index, outcome in outcomes.items()]
    own = {place_of(point) for outcome in outcomes.values() for point in outcome.curve}
    shared = sorted(own.intersection(*tasks))
    return {place: math.fsum(task[place] for task in tasks) / len(tasks) for place in shared}
