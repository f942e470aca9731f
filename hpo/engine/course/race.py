"""Racing of folds: a trial that is clearly behind after its first folds does not get the others."""

import math
import statistics
from collections.abc import Sequence

from hpo.engine.trials.trial import Direction, Trial, loss_of

Losses = tuple[float, ...]


class Race:
    """Compares a trial's first tasks with the same tasks of the best trial that was known when it was proposed.

    The rival is the trial of lowest mean loss on these tasks among the complete trials that were known then and were
    trained as far (under a strategy that trains by amounts). So the decision is the same for any number of workers, in
    any order, and under any budget.

    A trial is behind when its losses on the shared tasks are all worse than the rival's, and a one-sided paired
    t-test says that their mean is worse. The losses are paired because some folds are harder than others.

    Source: F-Race, Birattari et al. 2002, "A Racing Algorithm for Configuring Metaheuristics"; with the t-test in
    place of Friedman's, as in irace (Lopez-Ibanez et al. 2016, section 3.2). We differ: one decision, after the
    first tasks, against one rival.

    Args:
        tasks: number of tasks before the decision; 2 or more.
        level: significance level of the test; a smaller one stops fewer trials.
        metric, direction: the study's.
    """

    def __init__(self, tasks: int, level: float, metric: str, direction: Direction) -> None:
        self.tasks = tasks
        self._level = level
        self._metric = metric
        self._direction: Direction = direction

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
        return _is_worse([mine - its for mine, its in zip(own, rival, strict=True)], self._level)

    def _first_losses(self, trial: Trial) -> Losses:
        outcomes = [trial.outcomes[index] for index in range(self.tasks) if index in trial.outcomes]
        if len(outcomes) < self.tasks or any(outcome.error for outcome in outcomes):
            return ()
        return tuple(loss_of(outcome.metrics[self._metric], self._direction) for outcome in outcomes)


def _is_worse(differences: Sequence[float], level: float) -> bool:
    """Return whether the differences are all above 0, and above it in the mean by a one-sided t-test."""
    if min(differences) <= 0:
        return False
    if math.isclose(min(differences), max(differences)):
        return True
    from scipy import stats  # Half a second to load: only where a race is run.

    return bool(stats.ttest_1samp(differences, 0.0, alternative="greater").pvalue < level)
