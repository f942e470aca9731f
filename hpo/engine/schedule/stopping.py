"""Rules that stop trials early (`Race` and `StopRule`), and the score at which a search ends (`Target`)."""

import bisect
import math
import operator
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from hpo.trials.goal import Goal
from hpo.trials.places import place_of
from hpo.trials.ranking import extend_front
from hpo.trials.trial import Outcome, Trial, loss_of, loss_sign


@dataclass(frozen=True)
class Target:
    """The target of a search, one loss per metric: no further trial begins after a trial has reached all of them.

    A trial counts only if it keeps the limits, is at the target scale (`scale`), and is trained to `full_amount`. If
    `full_amount` is None, every training is a full training.
    """

    losses: tuple[float, ...]
    full_amount: int | None
    scale: int

    @classmethod
    def of(cls, scores: float | Mapping[str, float], goal: Goal, full_amount: int | None) -> Self:
        """Make a target from the score to reach, or from a mapping with the score to reach in each metric."""
        by_metric = scores if isinstance(scores, Mapping) else {goal.metric: scores}
        return cls(goal.losses(by_metric), full_amount, goal.target)

    def is_reached_by(self, trial: Trial) -> bool:
        """Return whether a trial that has ended reaches the target."""
        is_full = self.full_amount is None or (trial.amount or self.full_amount) >= self.full_amount
        is_eligible = trial.keeps_limits and is_full and trial.scale == self.scale
        return is_eligible and all(map(operator.le, trial.losses, self.losses))


Values = tuple[float, ...]
Rivals = Mapping[Values, Sequence[Values]]
"""The losses of a race's rivals, one entry per rival. Only a rival's first `Race.tasks` tasks count.
The key is a tuple with the rival's mean loss in each metric. The value has one tuple per metric, with the rival's loss
on each task."""
# The median rule compares only at places that at least this many trials have reached, as in Optuna's MedianPruner.
_LEAST = 5


class Race:
    """A race: stops a trial that is clearly worse than the best trials on its first `tasks` tasks (2 or more).

    A stopped trial is not trained on the other folds. With one metric, a trial has one rival: the trial with the lowest
    mean loss on these first tasks. The rival is chosen from the complete trials that were known when the trial was
    opened and that have the same amount of training. So the choice depends neither on the workers nor on the budget. A
    trial is stopped if its loss is worse than the rival's on each of these tasks, and if a one-sided t-test confirms
    that its mean loss is worse (significance `level`). The test is paired by task, because some folds are harder than
    others.

    With several metrics, the rivals are the trials on the Pareto front of the mean losses on these tasks. The race
    compares the trial with one rival at a time. It tests each metric in which the two trials differ on at least one
    task. If all tests against one rival find the trial worse, the trial is stopped. For example, a rival with a lower
    error does not stop a trial that may be faster than the rival.

    The significance level holds for each rival, because the tests of all metrics must agree (Berger 1982,
    "Multiparameter hypothesis testing and acceptance sampling"). The level is not corrected for the number of rivals.

    Only a trial that keeps the limits can be a rival. If there is a rival, the same test also compares the trial with
    each limit: the bound takes the place of the rival's losses. A trial that is worse than a bound in this test is
    stopped, too. If a trial is worse by the same difference on all tasks, such as a difference in the number of
    parameters, it counts as worse without a test. While there is no rival, the race ignores the limits, and stops only
    trials with a failed task or a missing metric.

    Source: F-Race, Birattari et al. 2002, "A Racing Algorithm for Configuring Metaheuristics"; with the t-test in place
    of Friedman's, as in irace (Lopez-Ibanez et al. 2016, section 3.2). Unlike both, this race decides only once per
    trial, after the trial's first tasks, and compares the trial only with the best trials.
    """

    def __init__(self, tasks: int, level: float, goal: Goal) -> None:
        self.tasks = tasks
        self._level = level
        self._goal = goal

    def add_rival(self, rivals: Rivals, trial: Trial) -> Rivals:
        """Add a trial to the rivals, and return the rivals that are then on the Pareto front.

        Return `rivals` unchanged if the trial is incomplete, exceeds a limit, or is not on the front. Also return
        `rivals` unchanged if the trial lacks a metric on any of the tasks that the race compares.
        """
        own = self._first_losses(trial) if trial.keeps_limits else ()
        if not own:
            return rivals
        means = tuple(map(statistics.fmean, own))
        front = extend_front(list(rivals), means)
        return rivals if front is None else {each: rivals.get(each, own) for each in front}

    def must_stop(self, trial: Trial, rivals: Rivals) -> bool:
        """Return whether to stop a trial because it is clearly worse than a rival, clearly exceeds a limit, or failed.

        Only the trial's first tasks count; the attribute `tasks` is their number. A trial counts as failed if any of
        these tasks lacks an outcome or a metric. If there are no rivals, stop only failed trials.
        """
        own = self._first_losses(trial)
        if not own or not rivals:
            return not own
        if any(self._are_worse(beyond) for beyond in self._beyond_limits(trial)):
            return True
        return any(self._is_dominated(own, rival) for rival in rivals.values())

    def _is_dominated(self, own: Sequence[Values], rival: Sequence[Values]) -> bool:
        differences = [[mine - its for mine, its in zip(*pair, strict=True)] for pair in zip(own, rival, strict=True)]
        different = [each for each in differences if any(each)]
        return bool(different) and all(map(self._are_worse, different))

    def _are_worse(self, differences: Sequence[float]) -> bool:
        """Return whether a trial is worse, given the trial's value minus the rival's value (or the bound) on each task.

        The trial is worse if all differences are above 0, and the t-test confirms that their mean is above 0. If all
        differences are equal, no test is needed.
        """
        if min(differences) <= 0:
            return False
        if math.isclose(min(differences), max(differences)):
            return True
        from scipy import stats  # Half a second to load, and only races need it.

        return bool(stats.ttest_1samp(differences, 0.0, alternative="greater").pvalue < self._level)

    def _first_losses(self, trial: Trial) -> Sequence[Values]:
        """Return one tuple per metric, with the loss on each of the trial's first tasks.

        The attribute `tasks` is the number of these tasks. If any of these tasks lacks an outcome or a metric, return
        an empty sequence.
        """
        outcomes, names = self._first(trial), self._goal.metrics.keys()
        if len(outcomes) < self.tasks or not all(names <= outcome.metrics.keys() for outcome in outcomes):
            return ()
        return list(zip(*(self._goal.losses(outcome.metrics) for outcome in outcomes), strict=True))

    def _beyond_limits(self, trial: Trial) -> Iterator[Sequence[float]]:
        """Yield one list per limit, with one number for each of the trial's tasks 0 to `self.tasks` - 1.

        The number says how far the task's value is beyond the bound; it is negative if the value is within the bound.
        If any of these tasks lacks the value, skip the limit.
        """
        outcomes = self._first(trial)
        for limit in self._goal.limits:
            # A task that the median rule has stopped has only the leading metric.
            if all(limit.metric in outcome.metrics for outcome in outcomes):
                yield [limit.beyond(outcome.metrics[limit.metric]) for outcome in outcomes]

    def _first(self, trial: Trial) -> list[Outcome]:
        return [trial.outcomes[index] for index in range(self.tasks) if index in trial.outcomes]


@dataclass(frozen=True)
class StopRule:
    """The median rule: it stops a training whose best score is worse than the median of other trials' best scores.

    A training is compared with trainings of other trials on the same fold and repeat. All compared trainings start at
    the same amount of training, and have the same final amount. The other trials are complete, keep the limits, and
    were known when the training's trial was opened. So the decision depends neither on the workers nor on the budget,
    and the worker itself can decide.

    The rule has a median for each place (a position on the learning curve, see `hpo.trials.places`) at which it knows
    the best scores of at least five other trainings. An ended training counts at all later places, too, with its best
    score. When a training reports at a place with a median, its best score so far is compared with this median. When it
    reports after the last of these places, its best score is compared with the last median. No training stops before
    its learning curve has `after` reports (1 or more).

    The rule needs a single metric, because a training that is behind in one metric may be on the Pareto front because
    of another metric. So the toolkit refuses `study.stop_rule` with several metrics.

    Source: the median stopping rule of Golovin et al. 2017, "Google Vizier", section 3.2.1. Here, the best score is
    compared instead of the running average, as in Optuna's MedianPruner.
    """

    after: int
    goal: Goal


class Medians:
    """For each place on the learning curve, the median of the trainings' best scores up to this place.

    The method `learn` adds the trainings of trials. Each combination of task index, first amount and last amount of the
    training has separate medians. The attribute `after` is the first report, counted from 1, at which a training may be
    stopped.
    """

    def __init__(self, rule: StopRule) -> None:
        self.after, self._goal = rule.after, rule.goal
        self._by_task: dict[tuple[int | None, int, int], _BestByPlace] = {}
        # The best loss of each training, by trial and task; a training that continues it starts with this best loss.
        self._best: dict[tuple[int | None, int], float] = {}

    def learn(self, trials: Iterable[Trial]) -> None:
        """Add trials whose results have become known, to compare running trainings with them."""
        for trial in trials:
            for index, outcome in trial.outcomes.items() if trial.keeps_limits else ():
                best, losses = self._best.get((trial.continues, index), math.inf), dict[float, float]()
                for point in outcome.curve:
                    best = min(best, self._loss(point))
                    losses[place_of(point)] = best
                self._best[trial.number, index] = best
                if losses:
                    self._by_task.setdefault((trial.amount, trial.trained, index), _BestByPlace()).add(losses)

    def limits(self, trial: Trial, index: int) -> Sequence[tuple[float, float]]:
        """Return the places of the learning curve at which the median rule may stop a training, each with a score.

        The score is the median of the best scores of other trainings up to this place.
        """
        known, sign = self._by_task.get((trial.amount, trial.trained, index)), loss_sign(self._goal.direction)
        medians = known.medians() if known else ()
        # A median is infinite if half of the trainings have no score yet at this place.
        return [(place, sign * loss) for place, loss in medians if not math.isinf(loss)]

    def _loss(self, point: Mapping[str, Any]) -> float:
        goal = self._goal
        return loss_of(point[goal.metric], goal.direction) if goal.metric in point else math.inf


class _BestByPlace:
    """For each place with a report, a sorted list of the trainings' best losses up to this place."""

    def __init__(self) -> None:
        self._places: list[float] = []
        self._losses: dict[float, list[float]] = {}
        # For each training, its last place and its best loss; sorted by place.
        self._ends: list[tuple[float, float]] = []

    def add(self, best: Mapping[float, float]) -> None:
        """Add a training; `best` maps the place of each report, in ascending order, to the best loss up to there."""
        *_, last = best
        for place in best:
            if place not in self._losses:
                bisect.insort(self._places, place)
                ended = bisect.bisect_left(self._ends, (place, -math.inf))
                self._losses[place] = sorted(loss for _, loss in self._ends[:ended])
            bisect.insort(self._losses[place], best[place])
        for place in self._places[bisect.bisect_right(self._places, last) :]:
            bisect.insort(self._losses[place], best[last])
        bisect.insort(self._ends, (last, best[last]))

    def medians(self) -> Iterator[tuple[float, float]]:
        """Yield two values for each place: the place, and the median of the trainings' best losses up to this place.

        Leave out places with the losses of fewer than `_LEAST` trainings.
        """
        for place in self._places:
            if len(losses := self._losses[place]) >= _LEAST:
                yield place, statistics.median(losses)
