"""Results of finished searches: the best loss within a budget in trials or seconds, and the means over repeats."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from hpo.compare.statistics import mean_bands
from hpo.report.comparison import Unit
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial

_MAX_POINTS = 300  # the largest number of points of a curve; a figure cannot show more


@dataclass(frozen=True)
class FinishedSearch:
    """The losses and costs of a whole search: of one repeat of a strategy, or of one study.

    Attributes:
        label: the label of the strategy, or the name of the study.
        repeat, seed: the number of the repeat, from 0, and the seed of the search and of its trainings.
        losses: the loss of each trial; lower is better. A trial that is not complete has an infinite loss. In a
            comparison of studies, a trial with a smaller amount or scale than the winner also has an infinite loss. The
            trials are in the order of their numbers, but trials fully trained after a study's search come last.
        seconds: the training time of each trial, summed over folds and repeats.
        is_partial: whether the trials of a strategy have different amounts, or the study has scales. If so, equal
            numbers of trials are not equal budgets.
        other_losses: with several metrics, the losses of the other metrics for each trial; `losses` has the losses
            of the leading metric.
        excess: with limits, how far each trial is beyond the limits. It is 0 for a trial within the limits, and for an
            incomplete trial.
        nothing: the loss that `best_at` returns for a budget in which no trial is finished.
    """

    label: str
    repeat: int
    seed: int
    losses: tuple[float, ...]
    seconds: tuple[float, ...]
    is_partial: bool = False
    other_losses: tuple[tuple[float, ...], ...] = ()
    excess: tuple[float, ...] = ()
    nothing: float = math.inf

    @classmethod
    def of(
        cls,
        label: str,
        repeat: int,
        seed: int,
        trials: Sequence[Trial],
        goal: Goal,
        is_partial: bool,
        counts: Callable[[Trial], bool] = lambda trial: trial.state == "complete",
    ) -> Self:
        """Return the search with these trials; a trial has infinite losses if `counts` returns false for the trial."""
        none = (math.inf,) * len(goal.metrics)
        losses = [trial.losses if counts(trial) else none for trial in trials]
        leading, seconds = tuple(first for first, *_ in losses), tuple(trial.seconds for trial in trials)
        others = tuple(tuple(further) for _, *further in losses) if len(goal.metrics) > 1 else ()
        excess = () if goal.is_single else tuple(trial.excess if counts(trial) else 0.0 for trial in trials)
        return cls(label, repeat, seed, leading, seconds, is_partial, others, excess)

    @cached_property
    def keeps_limits(self) -> npt.NDArray[np.bool]:
        """For each trial, whether the trial is complete and within the limits."""
        excess = np.asarray(self.excess or (0.0,) * len(self.losses))
        keeps: npt.NDArray[np.bool] = np.isfinite(np.asarray(self.losses, dtype=np.float64)) & (excess == 0)
        return keeps

    @property
    def losses_within_limits(self) -> npt.NDArray[np.float64]:
        """The losses of the trials within the limits, of shape (number of these trials, number of metrics)."""
        columns = np.asarray(self.losses, dtype=np.float64)[:, np.newaxis]
        if self.other_losses:
            columns = np.concatenate((columns, np.asarray(self.other_losses, dtype=np.float64)), axis=1)
        return columns[self.keeps_limits]

    @property
    def within_limits(self) -> Self:
        """A copy of the search in which trials beyond the limits have infinite losses."""
        if not any(self.excess):
            return self
        losses = (loss if keeps else math.inf for loss, keeps in zip(self.losses, self.keeps_limits, strict=True))
        return replace(self, losses=tuple(losses))

    @cached_property
    def best(self) -> npt.NDArray[np.float64]:
        """For each trial, the lowest loss up to and including this trial; infinite before the first complete trial."""
        return np.minimum.accumulate(np.asarray(self.losses, dtype=np.float64))

    @cached_property
    def cost(self) -> npt.NDArray[np.float64]:
        """For each trial, the summed training time of all trials up to and including this trial, in seconds."""
        return np.cumsum(np.asarray(self.seconds, dtype=np.float64))

    @property
    def total_seconds(self) -> float:
        """The summed training time of all trials, in seconds."""
        return float(self.cost[-1]) if len(self.cost) else 0.0

    def best_at(self, budget: float, unit: Unit) -> float:
        """Return the lowest loss within a budget; if no trial is finished within the budget, return `self.nothing`.

        If the search ended before the budget, return the lowest loss of the whole search.
        """
        done = self._done(budget, unit)
        return float(self.best[done - 1]) if done else self.nothing

    def over_at(self, budget: float, unit: Unit) -> float:
        """Return the share of the trials within a budget that exceed a limit; 0 if there are no trials."""
        done = self._done(budget, unit)
        return sum(each > 0 for each in self.excess[:done]) / done if done else 0.0

    def _done(self, budget: float, unit: Unit) -> int:
        """Return the number of trials that are finished within a budget."""
        if unit == "trials":
            return min(int(budget), len(self.losses))
        # The tolerance is needed because sums of seconds in another order differ in their last digits.
        return int(np.searchsorted(self.cost, budget * (1 + 1e-12), side="right"))

    def seconds_at(self, budget: float, unit: Unit) -> float:
        """Return how many seconds of training the search had used when it reached `budget` (in `unit`)."""
        return min(budget, self.total_seconds) if unit == "seconds" else math.fsum(self.seconds[: int(budget)])


def all_searches(by_label: Mapping[str, Sequence[FinishedSearch]]) -> list[FinishedSearch]:
    """Return the searches of all strategies or studies in one list."""
    return [search for of_label in by_label.values() for search in of_label]


def mean_curve(searches: Sequence[FinishedSearch], unit: Unit, sign: float, seed: int) -> dict[str, list[float]]:
    """Return the curve of the repeats' mean best score: the budgets, the means, and the means' 95 % bootstrap band.

    The curve begins at the first budget at which every search has a finite loss. If `unit` is seconds, the curve ends
    with the shortest search, because a mean over fewer searches would jump. `sign`, 1 or -1, turns a loss into a score.
    The band is empty if there is a single search.
    """
    places = np.array(_places(searches, unit))
    losses = np.array([[search.best_at(place, unit) for place in places] for search in searches])
    is_known = np.isfinite(losses).all(axis=0)
    losses = losses[:, is_known]
    ends = mean_bands(losses, seed) if losses.size and len(searches) > 1 else (np.zeros(0), np.zeros(0))
    low, high = (sign * end for end in (ends if sign > 0 else reversed(ends)))
    curves = {unit: places[is_known], "mean": sign * losses.mean(axis=0), "low": low, "high": high}
    return {name: values.tolist() for name, values in curves.items()}


def _places(searches: Sequence[FinishedSearch], unit: Unit) -> list[float]:
    if unit == "trials":
        last = max((len(search.losses) for search in searches), default=0)
        return sorted({round(place) for place in np.linspace(1, last, min(last, _MAX_POINTS))}) if last else []
    # The cost up to the first complete trial; infinite if a search has no complete trial.
    first = [min(search.cost[np.isfinite(search.best)], default=math.inf) for search in searches]
    start, end = max(first), min(search.total_seconds for search in searches)
    return np.linspace(start, end, _MAX_POINTS).tolist() if start < end else []
