"""The goal of a search: its metrics with their directions, and its limits."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hpo.config.directions import known_direction
from hpo.config.goals import SCALE, bounds_of
from hpo.config.sections import StudySection
from hpo.trials.places import Point, place_of
from hpo.trials.reported_values import LARGEST
from hpo.trials.space import space
from hpo.trials.trial import Direction, Outcome, Trial, loss_of, loss_sign


@dataclass(frozen=True)
class Limit:
    """A limit for the winner: the largest allowed value of a metric, or the smallest allowed value if `is_least`."""

    metric: str
    bound: float
    is_least: bool = False

    def beyond(self, value: float) -> float:
        """Return how far a value is beyond the bound; a negative result means that the value is within the bound."""
        return self.bound - value if self.is_least else value - self.bound

    def excess(self, value: float) -> float:
        """Return how far a value is beyond the bound, divided by the bound's absolute value (by 1 if the bound is 0).

        Return 0 if the value is within the bound. The result is at most `LARGEST`.
        """
        return min(max(0.0, self.beyond(value)) / (abs(self.bound) or 1.0), LARGEST)

    def __str__(self) -> str:
        """Return the limit as text, such as `parameters <= 1e+06`: the metric, the comparison and the bound."""
        return f"{self.metric} {'>=' if self.is_least else '<='} {self.bound:g}"


@dataclass(frozen=True)
class Goal:
    """The goal of a search.

    With several metrics, a trial is better than another trial if it dominates the other trial. To dominate means to be
    worse in no metric, and better in at least one. The first metric leads: the `score` and `loss` of a trial, its
    learning curves, its best epoch and early stopping use this metric. A trial within the limits is better than a trial
    that exceeds a limit. Of two trials that exceed a limit, the one with less excess is better (Deb 2000, "An efficient
    constraint handling method for genetic algorithms").

    Attributes:
        metrics: the metrics with their directions; the first one leads.
        limits: the limits.
        target: the number of the target scale; the winner must be a trial at this scale; 0 = there are no scales.
        curve_score: which report gives the score of a training that returns nothing: the best or the last one.
        measured: other metrics that every task must return; they influence neither the search nor the winner.
    """

    metrics: Mapping[str, Direction]
    limits: Sequence[Limit] = ()
    target: int = 0
    curve_score: Literal["best", "last"] = "best"
    measured: Sequence[str] = ()

    @property
    def metric(self) -> str:
        """The name of the leading metric, which is the first of `metrics`."""
        return next(iter(self.metrics))

    @property
    def direction(self) -> Direction:
        """The direction of the leading metric: whether to minimize or to maximize it."""
        return self.metrics[self.metric]

    @property
    def is_single(self) -> bool:
        """Whether there is only one metric and no limit."""
        return len(self.metrics) == 1 and not self.limits

    @property
    def decisive(self) -> tuple[str, ...]:
        """The names of the values that decide which trial is better: the metrics in order, then values with a limit."""
        return tuple(dict.fromkeys([*self.metrics, *(limit.metric for limit in self.limits)]))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values that every task must return: `decisive`, then `measured`."""
        return tuple(dict.fromkeys([*self.decisive, *self.measured]))

    def losses(self, values: Mapping[str, float]) -> tuple[float, ...]:
        """Return one loss per metric, in the order of the metrics: the value, negated if higher is better."""
        return tuple(loss_of(values[name], direction) for name, direction in self.metrics.items())

    def scores(self, losses: Sequence[float]) -> dict[str, float]:
        """Return the metric values by name, computed from the losses; the inverse of `losses`."""
        return {name: loss_sign(way) * loss for (name, way), loss in zip(self.metrics.items(), losses, strict=True)}

    def excess(self, values: Mapping[str, float]) -> float:
        """Return the sum of the relative excesses over all limits; 0 if the values keep all limits."""
        return math.fsum(limit.excess(values[limit.metric]) for limit in self.limits)

    def trial(self, number: int, round_number: int, point: space.Point, **others: Any) -> Trial:
        """Return a new trial of a study with this goal; `others` holds further attributes of the trial."""
        return Trial(number, round_number, point, is_scaled=self.target > 0 or SCALE not in point, **others)

    def beyond(self, trial: Trial) -> dict[str, float]:
        """Return how far a complete trial is beyond each limit; {} if the trial is not complete.

        The keys are the limits as text, such as `latency <= 20`. The numbers are in the units of the limits. A negative
        number means that the trial is within the limit.
        """
        limits = self.limits if trial.state == "complete" else ()
        return {str(limit): limit.beyond(trial.mean(limit.metric)) for limit in limits}


def goal_of(study: StudySection) -> Goal:
    """Return the goal by which the winner is chosen; limits set after the search replace the limits of the search."""
    # Count the values that the search limited as measured, because all trials have returned them.
    measured = [*(study.limits or ()), *(study.measured or ())]
    return _goal(study, study.limits if study.limits_after is None else study.limits_after, measured)


def searched_goal(study: StudySection) -> Goal:
    """Return the goal by which the search proposes points and stops trainings."""
    return _goal(study, study.limits, study.measured or ())


def _goal(study: StudySection, limited: Mapping[str, float | dict[str, float]] | None, measured: Sequence[str]) -> Goal:
    metrics = study.metrics or {study.metric: study.direction}
    limits = [
        Limit(name, bound, is_least)
        for name, bounds in (limited or {}).items()
        for bound, is_least in bounds_of(bounds, metrics.get(name) or known_direction(name))
    ]
    return Goal(metrics, tuple(limits), len(study.scales or ()), study.score, tuple(measured))


def finished(
    trial: Trial,
    outcomes: Mapping[int, Outcome],
    goal: Goal,
    is_stopped: bool = False,
    earlier: Callable[[int], Sequence[Point]] = lambda _: (),
) -> Trial:
    """Return an ended trial with its outcomes and its state.

    The state is `failed` if a task failed. Otherwise, it is `stopped` if a rule or a user stopped the trial or a task.
    Otherwise, it is `complete`. `earlier` takes the index of a task, and returns the learning-curve points of the
    trainings that the task continues.
    """
    done = replace(trial, outcomes=dict(sorted(outcomes.items())))
    if any(outcome.error for outcome in outcomes.values()):
        return replace(done, state="failed")
    if is_stopped or any(outcome.stopped for outcome in outcomes.values()):
        # A mean over fewer folds or less training is not comparable, so strategies get an infinite loss. If a user
        # stopped the trial before its first report, it has no score.
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
    """Compute the excess of a complete trial again, from the limits of `goal`, and return the changed trial.

    The losses stay the same. If the trial is not complete, return it unchanged.
    """
    if trial.state != "complete":
        return trial
    return replace(trial, excess=goal.excess({limit.metric: trial.mean(limit.metric) for limit in goal.limits}))


def losses_by_place(points: Iterable[Point], goal: Goal) -> dict[float, float]:
    """Return, for each place on a learning curve, the loss that the training would have if it ended there.

    This loss is the best one so far, or the last reported one if `curve_score` is `last`. Before the first report of
    the metric, the loss is infinite.
    """
    losses, best = dict[float, float](), math.inf
    for point in points:
        if goal.metric in point:
            loss = loss_of(point[goal.metric], goal.direction)
            best = loss if goal.curve_score == "last" else min(best, loss)
        losses[place_of(point)] = best
    return losses


def _losses_at(
    outcomes: Mapping[int, Outcome], goal: Goal, earlier: Callable[[int], Sequence[Point]]
) -> dict[float, float]:
    tasks = [losses_by_place([*earlier(index), *outcome.curve], goal) for index, outcome in outcomes.items()]
    own = {place_of(point) for outcome in outcomes.values() for point in outcome.curve}
    shared = sorted(own.intersection(*tasks))
    return {place: math.fsum(task[place] for task in tasks) / len(tasks) for place in shared}
