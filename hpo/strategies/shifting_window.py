"""Shifting-window search: random draws from a window that moves to the best value of every dimension."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field

from hpo.dimensions import Choices, Dimension, Range, Value, allows
from hpo.errors import ConfigError, nearest
from hpo.history import History
from hpo.keys import flatten
from hpo.space import Point, Space
from hpo.strategies.draws import draw_untried
from hpo.strategies.protocol import Settings


def _odd(value: int) -> int:
    if value % 2 == 0:
        raise ValueError("must be odd, so that the window has a middle")
    return value


Window = Annotated[int, Field(ge=1), AfterValidator(_odd)]


class ShiftingWindowSettings(Settings):
    """Settings of shifting-window search.

    Attributes:
        window: number of neighbouring values in a window, odd; a shorter dimension is its own window.
        windows: exceptions to `window`, by dotted key.
        range_window: length of the window on a range without `points`, as a share of its (log) length.
        start: value at the centre of the first window, by dotted key; the middle of the range elsewhere.
        rounds: N, the number of rounds; None lets the budget end the search.
        draws: N', the number of points drawn a round.
        credit: how "the value that led to the best performance" is read: the value in the `best` trial, or
            the value whose trials have the best `mean` or `median`. On a range without `points` it is always
            the best trial's, since hardly a value comes twice.
    """

    window: Window
    windows: Annotated[dict[str, Window], BeforeValidator(flatten)]
    range_window: float = Field(gt=0, le=1)
    start: Annotated[dict[str, Any], BeforeValidator(flatten)]
    rounds: int | None = Field(ge=1)
    draws: int = Field(ge=1)
    credit: Literal["best", "mean", "median"]


@dataclass(frozen=True)
class ShiftingWindow:
    """N rounds of N' random draws; after each, every window moves to the value that did best.

    First points: drawn from windows in the middle of every range (the lower middle of an even number of
    values), or around `start`. After a round, per dimension, the value that led to the best performance
    among all trials so far becomes the centre of the window, clipped to stay inside the range. Choices
    have no order and no window: they are drawn from all their values. Failures count as worst, ties go to
    the earlier trial; while every trial has failed the windows stay. Ends after N rounds, or when the
    windows hold no untried point (they cannot move without a new trial).

    Source: lecture "Hyperparameter Optimization", CIS, LMU Munich, 2020. The lecture leaves open which
    trials are looked at and how credit is given; here it is all trials so far, and `credit` says how.

    Example: over the range 4, 8, 16, 32, 64, 128, 256 the first window is 16, 32, 64. If 64 did best, the
    next window is 32, 64, 128; if 256 were best, 64, 128, 256.
    """

    settings: ShiftingWindowSettings
    space: Space
    seed: int

    def __post_init__(self) -> None:
        windowed = {d.key: d for d in self.space.dimensions if not isinstance(d, Choices)}
        for field in ("windows", "start"):
            for key in getattr(self.settings, field):
                if key not in windowed:
                    raise ConfigError(
                        f"strategy.{field}.{key}: is not an ordered dimension of the space; allowed: "
                        f"{', '.join(windowed)}{nearest(key, windowed)}"
                    )
        for key in self.settings.windows:
            if isinstance(windowed[key], Range):
                raise ConfigError(
                    f"strategy.windows.{key}: has no effect on a range; set strategy.range_window, or give it points"
                )
        for key, value in self.settings.start.items():
            if not allows(windowed[key], value):
                raise ConfigError(f"strategy.start.{key}: {value!r} is not in the range; give one of its values")
        self._check_lengths([d for d in windowed.values() if not isinstance(d, Range)])

    def _check_lengths(self, finite: Sequence[Dimension]) -> None:
        for dimension in finite:
            window = self.settings.windows.get(dimension.key, 0)
            if window > len(dimension.values):
                raise ConfigError(
                    f"strategy.windows.{dimension.key}: is longer than the range, given {window} for "
                    f"{len(dimension.values)} values; give an odd number up to that"
                )
        longest = max((len(d.values) for d in finite), default=math.inf)
        if self.settings.window > longest:
            raise ConfigError(
                f"strategy.window: is longer than every ordered range of the space, given {self.settings.window} "
                f"where the longest has {longest} values; give an odd number up to that"
            )

    @property
    def announcement(self) -> str:
        """One line on the windows and rounds."""
        rounds = self.settings.rounds or "rounds until the budget ends"
        return f"shifting window: {rounds} of {self.settings.draws} draws, windows of {self.settings.window} values"

    def next_round(self, history: History) -> Sequence[Point]:
        """Return `draws` untried points from the windows that the history leads to."""
        if self.settings.rounds and history and history[-1].round + 1 >= self.settings.rounds:
            return []
        rng = np.random.default_rng((self.seed, len(history)))
        windows = replace(self.space, dimensions=tuple(self.window(d, history) for d in self.space.dimensions))
        return draw_untried(windows, rng, history.keys, self.settings.draws)

    def window(self, dimension: Dimension, history: History) -> Dimension:
        """Return the dimension narrowed to its window after these trials."""
        if isinstance(dimension, Choices):
            return dimension
        centre = self._best_value(dimension, history)
        if isinstance(dimension, Range):
            return self._range_window(dimension, centre)
        values = dimension.values
        length = min(self.settings.windows.get(dimension.key, self.settings.window), len(values))
        middle = (len(values) - 1) // 2 if centre is _NOTHING else values.index(centre)
        first = min(max(middle - length // 2, 0), len(values) - length)
        return replace(dimension, values=values[first : first + length])

    def _range_window(self, dimension: Range, centre: Any) -> Dimension:
        half = self.settings.range_window / 2
        unit = 0.5 if centre is _NOTHING else dimension.to_unit(centre)
        unit = min(max(unit, half), 1 - half)
        low, high = dimension.from_unit(unit - half), dimension.from_unit(unit + half)
        assert isinstance(low, int | float)
        assert isinstance(high, int | float)
        return replace(dimension, low=low, high=high)

    def _best_value(self, dimension: Dimension, history: History) -> Any:
        """Return the value that led to the best performance, or `_NOTHING` where no trial has one."""
        tried = [t for t in history.ranked() if dimension.key in t.point and math.isfinite(t.loss)]
        if not tried:
            return self.settings.start.get(dimension.key, _NOTHING)
        if self.settings.credit == "best" or isinstance(dimension, Range):
            return tried[0].point[dimension.key]
        return _best_group(dimension.key, history, self.settings.credit)


_NOTHING = object()


def _best_group(key: str, history: History, credit: str) -> Value:
    """Return the value with the best mean or median loss over all its trials, failures as worst."""
    losses: dict[Value, list[float]] = {}
    for trial in history:
        if key in trial.point:
            losses.setdefault(trial.point[key], []).append(trial.loss)
    average = statistics.fmean if credit == "mean" else statistics.median
    # min() keeps the first of equals, and the groups stand in the order of their earliest trial.
    return min(losses, key=lambda value: average(losses[value]))
