"""Rules that stop what falls behind, a race between folds and the median rule; and the target that ends a search."""

import bisect
import math
import operator
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from hpo.trials.goal import Goal
from hpo.trials.places import place_of
from hpo.trials.ranking import joined
from hpo.trials.trial import Outcome, Trial, loss_of, loss_sign


@dataclass(frozen=True)
class Target:
    """The losses, one a metric, at which a search ends: no trial begins after one has reached all of them.

    It keeps the limits, is trained to `full_amount` (None = every training is a full one), and is at the target scale.
    """

    losses: tuple[float, ...]
    full_amount: int | None
    scale: int

    @classmethod
    def of(cls, scores: float | Mapping[str, float], goal: Goal, full_amount: int | None) -> Self:
        """Return the target of these scores: one, or one for each metric."""
        by_metric = scores if isinstance(scores, Mapping) else {goal.metric: scores}
        return cls(goal.losses(by_metric), full_amount, goal.target)

    def is_reached_by(self, trial: Trial) -> bool:
        """Return whether a trial that has ended reaches it."""
        is_full = self.full_amount is None or (trial.amount or self.full_amount) >= self.full_amount
        is_meant = trial.keeps_limits and is_full and trial.scale == self.scale
        return is_meant and all(map(operator.le, trial.losses, self.losses))


Values = tuple[float, ...]
Rivals = Mapping[Values, Sequence[Values]]
"""The trials that others are compared with: by the mean loss of each metric on the first tasks, the losses there."""
# Complete trials that must be known before any is stopped, as in Optuna's MedianPruner.
_LEAST = 5


class Race:
    """Racing of folds: a trial that is clearly behind after its first `tasks`, 2 or more, does not get the others.

    The rival is the trial of lowest mean loss on these tasks among the complete ones that were known when it was
    proposed, and were trained as far: so workers, their order and the budget have no influence. The trial is behind
    when its losses on them are all worse, and so is their mean by a one-sided t-test of significance `level`, paired
    because some folds are harder than others.

    With several metrics the rivals are those whose mean losses on these tasks no other's dominate. A trial is behind
    one of them when it is so, by the test above, in every metric in which they differ on any task: so one of a metric
    in which it is better, or might be, is never stopped. That all tests must say so keeps the `level` for each rival
    (Berger 1982, "Multiparameter hypothesis testing and acceptance sampling"); that any of several rivals will do is
    not corrected for. Rivals keep the limits. Where there are some, a trial is behind, too, when it is beyond a limit
    by the same test, with the bound in place of the rival's losses: what does not depend on the fold, such as a number
    of parameters, is beyond or not. Where none keeps the limits yet, no trial is stopped.

    Source: F-Race, Birattari et al. 2002, "A Racing Algorithm for Configuring Metaheuristics"; with the t-test in place
    of Friedman's, as in irace (Lopez-Ibanez et al. 2016, section 3.2). We differ: one decision, after the first tasks,
    against the best alone.
    """

    def __init__(self, tasks: int, level: float, goal: Goal) -> None:
        self.tasks = tasks
        self._level = level
        self._goal = goal

    def joined(self, rivals: Rivals, trial: Trial) -> Rivals:
        """Return the rivals after this trial became known: with it, without those that are no better, or as before."""
        own = self._first_losses(trial) if trial.keeps_limits else ()
        if not own:
            return rivals
        means = tuple(map(statistics.fmean, own))
        front = joined(list(rivals), means)
        return rivals if front is None else {each: rivals.get(each, own) for each in front}

    def is_behind(self, trial: Trial, rivals: Rivals) -> bool:
        """Return whether the trial should get no further tasks: it failed, or is clearly worse than a rival."""
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
        """Return whether these are above 0 with certainty."""
        if min(differences) <= 0:
            return False
        if math.isclose(min(differences), max(differences)):
            return True
        from scipy import stats  # Half a second to load: only where a race is run.

        return bool(stats.ttest_1samp(differences, 0.0, alternative="greater").pvalue < self._level)

    def _first_losses(self, trial: Trial) -> Sequence[Values]:
        """Return the losses on the first tasks, by metric; none where it lacks one of them, or of their metrics."""
        outcomes, names = self._first(trial), self._goal.metrics.keys()
        if len(outcomes) < self.tasks or not all(names <= outcome.metrics.keys() for outcome in outcomes):
            return ()
        return list(zip(*(self._goal.losses(outcome.metrics) for outcome in outcomes), strict=True))

    def _beyond_limits(self, trial: Trial) -> Iterator[Sequence[float]]:
        """Yield per limit how far its values on the first tasks are beyond the bound; below 0 is within."""
        outcomes = self._first(trial)
        for limit in self._goal.limits:
            # One that the median rule has stopped has the leading metric alone.
            if all(limit.metric in outcome.metrics for outcome in outcomes):
                yield [limit.beyond(outcome.metrics[limit.metric]) for outcome in outcomes]

    def _first(self, trial: Trial) -> list[Outcome]:
        return [trial.outcomes[index] for index in range(self.tasks) if index in trial.outcomes]


@dataclass(frozen=True)
class StopRule:
    """The median rule: stops a training whose best score is worse than the median of others' best at that place.

    The others are the same fold of the complete trials that were known when the trial was proposed, at least five that
    have reported at that place (see `hpo.trials.places`); one that ended earlier counts with the best that it
    reached. Where it is reported at other places than they are, nothing is concluded before the next that they share.
    So workers, their order and the budget have no influence, and the
    worker itself can decide. Every training gets `after` points of its learning curve, 1 or more. With limits the
    others are those that keep them. It goes by one metric: with several, a training that is behind in one may be on the
    front for another, so that `study.stop_rule` is refused there.

    Source: the median stopping rule of Golovin et al. 2017, "Google Vizier", section 3.2.1. We differ: the best score
    instead of the running average, as Optuna's MedianPruner does.
    """

    after: int
    goal: Goal


class Medians:
    """The medians by which a rule stops, from the trials that became known so far; learning costs what is added."""

    def __init__(self, rule: StopRule) -> None:
        self._rule = rule
        self._by_task: dict[tuple[int | None, int, int], _BestByPlace] = {}
        # The best of each training, by trial and task: those that continue it go on from there.
        self._best: dict[tuple[int | None, int], float] = {}

    def learn(self, trials: Iterable[Trial]) -> None:
        """Add trials that became known."""
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
        """Return the score that a training must have reached, by place, as far as something is concluded there."""
        known, sign = self._by_task.get((trial.amount, trial.trained, index)), loss_sign(self._rule.goal.direction)
        medians = known.medians() if known else ()
        # Infinite where half of them have no score yet.
        return [(place, sign * loss) for place, loss in medians if not math.isinf(loss)]

    @property
    def after(self) -> int:
        """How many points every training gets."""
        return self._rule.after

    def _loss(self, point: Mapping[str, Any]) -> float:
        goal = self._rule.goal
        return loss_of(point[goal.metric], goal.direction) if goal.metric in point else math.inf


class _BestByPlace:
    """The best losses of trainings up to each place that one of them has reported, in order."""

    def __init__(self) -> None:
        self._places: list[float] = []
        self._losses: dict[float, list[float]] = {}
        # The last place of each training, and its best loss there, by place.
        self._ends: list[tuple[float, float]] = []

    def add(self, best: Mapping[float, float]) -> None:
        """Add a training: the best losses up to each of its places, which rise."""
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
        """Yield the median loss at each place where enough of them are known."""
        for place in self._places:
            if len(losses := self._losses[place]) >= _LEAST:
                yield place, statistics.median(losses)
