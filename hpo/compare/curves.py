"""Finished searches as numbers: the best loss so far over trials and over cost, and its mean over repeats."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hpo.compare.statistics import mean_bands

Unit = Literal["trials", "seconds"]

_MOST_PLACES = 300  # of a curve: more cannot be seen in a figure


@dataclass(frozen=True)
class FinishedSearch:
    """One whole search.

    Attributes:
        label: of the strategy with its settings, or of the study.
        repeat, seed: number of the repeat, from 0, and the seed of the search and of its trainings.
        losses: one per trial in the order of their numbers, lower is better; infinite where a trial did not complete.
            A trial that was trained for less than others counts with the score that it reached.
        seconds: of each trial, summed over folds and workers.
        is_partial: whether trials were trained by different amounts, so that equal counts are not equal budgets.
    """

    label: str
    repeat: int
    seed: int
    losses: tuple[float, ...]
    seconds: tuple[float, ...]
    is_partial: bool = False

    @cached_property
    def best(self) -> npt.NDArray[np.float64]:
        """The lowest loss so far after each trial; infinite while none is complete."""
        return np.minimum.accumulate(np.asarray(self.losses, dtype=np.float64))

    @cached_property
    def cost(self) -> npt.NDArray[np.float64]:
        """The seconds spent up to the end of each trial."""
        return np.cumsum(np.asarray(self.seconds, dtype=np.float64))

    @property
    def total_seconds(self) -> float:
        """The seconds spent in total."""
        return float(self.cost[-1]) if len(self.cost) else 0.0

    def best_at(self, budget: float, unit: Unit) -> float:
        """Return the lowest loss within a budget; a search that ended earlier keeps its best."""
        if unit == "trials":
            done = min(int(budget), len(self.losses))
        else:
            # Sums of seconds in a different order differ in their last digits.
            done = int(np.searchsorted(self.cost, budget * (1 + 1e-12), side="right"))
        return float(self.best[done - 1]) if done else math.inf

    def seconds_at(self, budget: float, unit: Unit) -> float:
        """Return the seconds spent within a budget."""
        if unit == "seconds":
            return min(budget, self.total_seconds)
        return math.fsum(self.seconds[: int(budget)])


@dataclass(frozen=True)
class Curve:
    """The mean best loss so far over the repeats, with the ends of its 95 % bootstrap band.

    Attributes:
        places: numbers of trials, or seconds.
        mean, low, high: losses; low and high are empty for a single search.
    """

    places: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def to_dict(self, unit: Unit, sign: float) -> dict[str, Any]:
        """Return it as JSON-able scores: `sign` is -1 where the study maximises."""
        ends = (self.low, self.high) if sign > 0 else (self.high, self.low)
        low, high = ([sign * loss for loss in end] for end in ends)
        return {unit: list(self.places), "mean": [sign * loss for loss in self.mean], "low": low, "high": high}


def mean_curve(searches: Sequence[FinishedSearch], unit: Unit, seed: int) -> Curve:
    """Return the curve of one strategy's repeats, from where every repeat has a complete trial.

    Over cost it ends where the first repeat ends: a mean over fewer repeats would jump.
    """
    places = _places(searches, unit)
    values = np.array([[search.best_at(place, unit) for place in places] for search in searches])
    is_known = np.isfinite(values).all(axis=0) if places else np.zeros(0, dtype=bool)
    if not is_known.any():
        return Curve((), (), (), ())
    values = values[:, is_known]
    known = tuple(place for place, is_there in zip(places, is_known, strict=True) if is_there)
    mean = tuple(float(value) for value in values.mean(axis=0))
    if len(searches) < 2:
        return Curve(known, mean, (), ())
    low, high = mean_bands(values, seed)
    return Curve(known, mean, tuple(low.tolist()), tuple(high.tolist()))


def _places(searches: Sequence[FinishedSearch], unit: Unit) -> list[float]:
    if unit == "trials":
        last = max((len(search.losses) for search in searches), default=0)
        return sorted({round(place) for place in np.linspace(1, last, min(last, _MOST_PLACES))}) if last else []
    first = [_first_cost(search) for search in searches]
    start, end = max(first), min(search.total_seconds for search in searches)
    return [float(place) for place in np.linspace(start, end, _MOST_PLACES)] if start < end else []


def _first_cost(search: FinishedSearch) -> float:
    """Return the cost up to the end of the first complete trial; infinite where there is none."""
    complete = np.flatnonzero(np.isfinite(search.best))
    return float(search.cost[complete[0]]) if len(complete) else math.inf
