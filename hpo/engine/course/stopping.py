"""Rules that stop what falls behind: a race between the folds of trials, and the median rule between trainings."""

import bisect
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.engine.trials.goal import Goal
from hpo.engine.trials.trial import Trial, loss_of, loss_sign

Losses = tuple[float, ...]
# Complete trials that must be known before any is stopped, as in Optuna's MedianPruner.
_LEAST = 5


class Race:
    """Racing of folds: a trial that is clearly behind after its first `tasks`, 2 or more, does not get the others.

    The rival is the trial of lowest mean loss on these tasks among the complete ones that were known when it was
    proposed, and were trained as far: so workers, their order and the budget have no influence. The trial is behind
    when its losses on them are all worse, and so is their mean by a one-sided t-test of significance `level`, paired
    because some folds are harder than others.

    Source: F-Race, Birattari et al. 2002, "A Racing Algorithm for Configuring Metaheuristics"; with the t-test in place
    of Friedman's, as in irace (Lopez-Ibanez et al. 2016, section 3.2). We differ: one decision, after the first tasks,
    against one rival.
    """

    def __init__(self, tasks: int, level: float, goal: Goal) -> None:
        self.tasks = tasks
        self._level = level
        self._goal = goal

    def better(self, rival: Losses, trial: Trial) -> Losses:
        """Return the first losses of the trial if it is complete and better than the rival's, else the rival's."""
        own = self._first_losses(trial)
        if trial.state == "complete" and own and (not rival or statistics.fmean(own) < statistics.fmean(rival)):
            return own
        return rival

    def is_behind(self, trial: Trial, rival: Losses) -> bool:
        """Return whether the trial should get no further tasks: it failed, or is clearly worse than the rival."""
        own = self._first_losses(trial)
        if not own or not rival:
            return not own
        differences = [mine - its for mine, its in zip(own, rival, strict=True)]
        if min(differences) <= 0:
            return False
        if math.isclose(min(differences), max(differences)):
            return True
        from scipy import stats  # Half a second to load: only where a race is run.

        return bool(stats.ttest_1samp(differences, 0.0, alternative="greater").pvalue < self._level)

    def _first_losses(self, trial: Trial) -> Losses:
        outcomes = [trial.outcomes[index] for index in range(self.tasks) if index in trial.outcomes]
        if len(outcomes) < self.tasks or any(outcome.error for outcome in outcomes):
            return ()
        return tuple(loss_of(outcome.metrics[self._goal.metric], self._goal.direction) for outcome in outcomes)


@dataclass(frozen=True)
class StopRule:
    """The median rule: stops a training whose best score is worse than the median of others' best at that place.

    The others are the same fold of the complete trials that were known when the trial was proposed; one that ended
    earlier counts with the best that it reached. So workers, their order and the budget have no influence, and the
    worker itself can decide. Every training gets `after` points of its learning curve, 1 or more.

    Source: the median stopping rule of Golovin et al. 2017, "Google Vizier", section 3.2.1. We differ: the best score
    instead of the running average, as Optuna's MedianPruner does.
    """

    after: int
    goal: Goal


class Medians:
    """The medians by which a rule stops, from the trials that became known so far; learning costs what is added."""

    def __init__(self, rule: StopRule) -> None:
        self._rule = rule
        # By what was trained, and place: the losses of all trainings, in order.
        self._losses: dict[tuple[int | None, int, int], list[list[float]]] = {}

    def learn(self, trials: Iterable[Trial]) -> None:
        """Add trials that became known."""
        for trial in trials:
            for index, outcome in trial.outcomes.items() if trial.state == "complete" else ():
                self._add(self._losses.setdefault((trial.amount, trial.trained, index), []), self._best(outcome.curve))

    def limits(self, trial: Trial, index: int) -> Sequence[float | None]:
        """Return the score that a training must have reached, by place on its curve, the last on; None = any."""
        losses = self._losses.get((trial.amount, trial.trained, index), [])
        if not losses or len(losses[0]) < _LEAST:
            return ()
        early, sign = self._rule.after - 1, loss_sign(self._rule.goal.direction)
        medians = [statistics.median(place) for place in losses]
        # Infinite where half of them have no score yet.
        later = [None if math.isinf(loss) else sign * loss for loss in medians[early:] or medians[-1:]]
        return [None] * early + later

    def _best(self, curve: Sequence[Mapping[str, Any]]) -> list[float]:
        """Return the least loss up to each point."""
        best, losses, goal = math.inf, [], self._rule.goal
        for point in curve:
            if goal.metric in point:
                best = min(best, loss_of(point[goal.metric], goal.direction))
            losses.append(best)
        return losses

    @staticmethod
    def _add(places: list[list[float]], best: Sequence[float]) -> None:
        if not best:
            return
        while len(places) < len(best):
            # Trainings that were shorter so far: what they reached in the end.
            places.append(list(places[-1]) if places else [])
        for place, losses in enumerate(places):
            bisect.insort(losses, best[min(place, len(best) - 1)])
