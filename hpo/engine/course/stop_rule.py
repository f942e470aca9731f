"""The median rule: a training that falls behind those before it is stopped."""

import bisect
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.engine.trials.trial import Direction, Trial, loss_of, loss_sign

# Complete trials that must be known before any is stopped, as in Optuna's MedianPruner.
_LEAST = 5


@dataclass(frozen=True)
class StopRule:
    """Stops a training whose best score so far is worse than the median of the best scores of others at that place.

    The others are the same fold of the complete trials that were known when the trial was proposed. So the decision
    depends on those and on the training's own curve: it is the same for any number of workers, in any order, under any
    budget, and the worker itself can make it. A training that ended earlier counts with the best that it reached.

    Source: the median stopping rule of Golovin et al. 2017, "Google Vizier", section 3.2.1. We differ: the best score
    instead of the running average, as Optuna's MedianPruner does.

    Attributes:
        after: points of its learning curve that every training gets; 1 or more.
        metric, direction: the study's.
    """

    after: int
    metric: str
    direction: Direction


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
        """Return the score that the trial's training must have reached, by place on its curve; None = any.

        After the last one, that holds.
        """
        losses = self._losses.get((trial.amount, trial.trained, index), [])
        if not losses or len(losses[0]) < _LEAST:
            return ()
        early, sign = self._rule.after - 1, loss_sign(self._rule.direction)
        medians = [statistics.median(place) for place in losses]
        # Infinite where half of them have no score yet.
        later = [None if math.isinf(loss) else sign * loss for loss in medians[early:] or medians[-1:]]
        return [None] * early + later

    def _best(self, curve: Sequence[Mapping[str, Any]]) -> list[float]:
        """Return the least loss up to each point."""
        best, losses = math.inf, []
        for point in curve:
            if self._rule.metric in point:
                best = min(best, loss_of(point[self._rule.metric], self._rule.direction))
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
