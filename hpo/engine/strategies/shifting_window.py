"""Shifting-window search: draws at random from one window per dimension; each window moves to the best value."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field

from hpo.config.keys import flatten
from hpo.engine.strategies.drawing.draws import draw_stratified, draw_untried, window
from hpo.engine.strategies.drawing.preselection import MEMORY, Preselection
from hpo.engine.strategies.strategy import MOST, Learns, Settings, generator, next_round
from hpo.errors import ConfigError, nearest
from hpo.trials.history import History, Weights
from hpo.trials.space.dimensions import Choices, Dimension, NoDefault, Range, Value, allows, canonical
from hpo.trials.space.first_points import range_text
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial

# The fewest values in a window of random length: the centre and a neighbour on each side.
_LEAST_VALUES = 3


def _odd(value: int) -> int:
    if value % 2 == 0:
        raise ValueError("must be odd, so that the window has a middle")
    return value


def _flat(value: Any) -> Any:
    return flatten(value) if isinstance(value, Mapping) else value


Window = Annotated[int, Field(ge=1, le=MOST), AfterValidator(_odd)]


class ShiftingWindowSettings(Settings):
    """Settings of shifting-window search, described in conf/strategy/shifting_window.yaml."""

    window: Window | None
    windows: Annotated[dict[str, Window], BeforeValidator(_flat)]
    range_window: float | None = Field(gt=0, le=1)
    opening: Literal["space", "window"]
    start: Annotated[dict[str, Any], BeforeValidator(_flat)]
    first_draws: int | None = Field(ge=1, le=MOST)
    rounds: int | None = Field(ge=1, le=MOST)
    draws: int = Field(ge=1, le=MOST)
    moving: float | None = Field(gt=0, le=1)
    candidates: int = Field(ge=1, le=MOST)
    credit: Literal["best", "mean", "median"]


@dataclass(frozen=True)
class ShiftingWindow:
    """Draw points at random from windows around the best values; after each round, the windows move to the new best.

    The setting `opening` determines the first points. With `space`, they come from the whole space, spread evenly over
    every dimension. With `window`, they come from windows around the values in `start`. A window without a value in
    `start` is centred on the default, or else on the middle of the dimension. After a round of `draws` points, each
    window is centred on the best value of its dimension in all trials so far, and kept inside the dimension. For each
    point, a dimension is drawn from its window with the probability `moving`; otherwise it gets its best value.

    If the settings give no window length, the windows of each point have a random length: the same share of every
    dimension, but at least three values. The share is drawn log-uniformly between `first_draws` / (number of trials so
    far) and 1. So points come closer and closer to the best point, but some are always far away. In a dimension of
    unordered choices, the window has all values. With `draws: 1`, the windows move after each trial whose result the
    strategy gets.

    Like evolutionary search, this search can get stuck at a point that has nothing better within reach. In a test of
    648 searches on synthetic problems, 43 had not found the optimum after 100 trials, and had gained nothing since
    trial 30 (with `evolutionary`, 48; benchmarks/strategy_defaults).

    With several metrics, the best trial is the one with the lowest weighted loss. The weights are drawn anew for each
    proposal, so that the windows cover the whole Pareto front (ParEGO: Knowles 2006). If two trials are equally good,
    the earlier one counts as better. Failed trials and trials that exceed a limit count as worst. Once there is such a
    trial, several candidates are drawn for each point, and `Preselection` takes the first candidate that is likely
    enough to be feasible. While every trial has failed, points are drawn like the first ones. If the windows hold no
    untried point, a point is drawn from the whole space. The search ends after `rounds` rounds, or when a finite space
    is exhausted.

    Source: lecture "Hyperparameter Optimization", CIS, LMU Munich, 2020. The lecture does not specify how to find the
    best value of a dimension. Here, it is found from all trials so far, as the setting `credit` says. For the lecture's
    literal method, set `window: 3`, `opening: window` and `moving: 1`. If no dimension has more values than its window,
    this method is random search.

    Example: over the values 4, 8, 16, 32, 64, 128, 256 with `window: 3` and `opening: window`, the first window is 16,
    32, 64. If 64 is best, the next window is 32, 64, 128. If 128 is then best, the next window is 64, 128, 256. If 256
    is then best, the window stays there.
    """

    REVISION: ClassVar[int] = 1

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
                    f"strategy.windows.{key}: has no effect on a range; set strategy.range_window or space.{key}.points"
                )
        for key, value in self.settings.start.items():
            if not allows(windowed[key], value):
                allowed = range_text(windowed[key])
                raise ConfigError(f"strategy.start.{key}: must be in its range ({allowed}), given {value!r}")
        if self.settings.start and self.settings.opening == "space":
            raise ConfigError("strategy.start: has no effect with opening=space; set strategy.opening=window")
        self._check_lengths([d for d in windowed.values() if not isinstance(d, Range)])

    def _check_lengths(self, finite: Sequence[Dimension]) -> None:
        for dimension in finite:
            window = self.settings.windows.get(dimension.key, 0)
            if window > len(dimension.values):
                raise ConfigError(
                    f"strategy.windows.{dimension.key}: must be an odd number up to {len(dimension.values)}, the "
                    f"number of values, given {window}"
                )
        longest = max((len(d.values) for d in finite), default=math.inf)
        if (self.settings.window or 0) > longest:
            raise ConfigError(
                f"strategy.window: must be an odd number up to {longest}, the length of the longest ordered dimension, "
                f"given {self.settings.window}"
            )

    @property
    def first_draws(self) -> int:
        """The number of points drawn in the first round."""
        return self.settings.first_draws or self.settings.draws

    @property
    def announcement(self) -> str:
        """One line of text about the windows and rounds."""
        settings = self.settings
        windows = f"windows of {settings.window} values" if settings.window else "windows of random length"
        draws = "then one point at a time" if settings.draws == 1 else f"then rounds of {settings.draws} points"
        rounds = f"{settings.rounds} rounds, " if settings.rounds else ""
        return f"shifting window: {rounds}{self.first_draws} points first, {draws}, {windows}"

    @property
    def learns(self) -> Learns:
        """When the strategy learns from results: `by_round` if a round has several draws, else `by_trial`."""
        return "by_round" if self.settings.draws > 1 else "by_trial"

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point]:
        """Return untried points: the first points, or points from the windows around the best values so far.

        Return no points after the last round. With `draws` above 1, also return none while a trial is pending.
        """
        settings = self.settings
        if pending and self.learns == "by_round":
            return []
        if settings.rounds and next_round([*known, *pending]) >= settings.rounds:
            return []
        rng, tried = generator(self.seed, known, pending), known.tried(pending)
        num_proposed = len(known) + len(pending)
        missing = self.first_draws - num_proposed
        # With several metrics, draw new weights for each proposal, so that the best trial varies (ParEGO).
        weights = known.draw_weights(rng)
        best = known.ranked(1, weights)
        has_led = any(trial.score is not None for trial in best)
        count = missing if missing > 0 else settings.draws
        if settings.opening == "space" and (missing > 0 or not has_led):
            return draw_stratified(self.space, rng, tried, count)
        centres = self.centres(known, weights)
        shortest = min(1.0, self.first_draws / max(num_proposed, 1))
        moving = settings.moving or 1 / (len(best[0].point) if best else len(self.space.dimensions))
        num_candidates = settings.candidates if any(t.state == "failed" or t.excess > 0 for t in known[-MEMORY:]) else 1
        drawn = draw_untried(
            self.space, rng, tried, count * num_candidates, lambda: self.draw(centres, shortest, moving, rng)
        )
        return drawn if len(drawn) <= count else self._preselection.most_feasible(known, drawn, count)

    @cached_property
    def _preselection(self) -> Preselection:
        return Preselection(self.space)

    def centres(self, history: History, weights: Weights = None) -> Mapping[str, Value]:
        """Return the centre of each window, by the key of the dimension.

        The centre is the best value so far, else the start value, else the default. A dimension with none of
        these values is left out.
        """
        centres: dict[str, Value] = {
            d.key: canonical(d, self.settings.start.get(d.key, d.default))
            for d in self.space.dimensions
            if d.key in self.settings.start or not isinstance(d.default, type)
        }
        leaders = [trial for trial in history.ranked(1, weights) if trial.score is not None]
        for dimension in self.space.dimensions if leaders else ():
            key = dimension.key
            if self.settings.credit != "best" and not isinstance(dimension, Range):
                groups = _groups(key, history, weights)
                average = statistics.fmean if self.settings.credit == "mean" else statistics.median
                if groups:
                    # Ties go to the value that was tried first: `min` returns the first of equals, and the groups are
                    # in the order of their earliest trial.
                    centres[key] = min(groups, key=lambda value: average(groups[value]))
            elif key in leaders[0].point:
                centres[key] = leaders[0].point[key]
            else:  # In the best trial, this dimension is inactive because of its condition.
                having = (t for t in history.ranked(None, weights) if key in t.point and t.score is not None)
                leader = next(having, None)
                if leader is not None:
                    centres[key] = leader.point[key]
        return centres

    def draw(self, centres: Mapping[str, Value], shortest: float, moving: float, rng: np.random.Generator) -> Point:
        """Return a point; each value is either drawn from the window of its dimension, or is the centre of this window.

        Args:
            centres: the centres of the windows by key. A dimension without a centre is always drawn from a window in
                the middle of the dimension.
            shortest: the lower limit for the random length of the windows, as a share of the dimension's length.
            moving: the probability that a dimension with a centre is drawn from its window.
            rng: the random generator.
        """
        share = shortest ** float(rng.random())
        values: dict[str, Value] = {}
        for dimension in self.space.dimensions:
            key = dimension.key
            if key not in centres or rng.random() < moving:
                values[key] = self.window(dimension, centres, share).draw(rng)
            else:
                values[key] = centres[key]
        return self.space.complete(values, rng)

    def window(self, dimension: Dimension, centres: Mapping[str, Value], share: float) -> Dimension:
        """Return a dimension narrowed to its window.

        If the settings give no length for this window, its length is the share `share` of the dimension's length.
        """
        settings = self.settings
        length = settings.windows.get(dimension.key, settings.window)
        if isinstance(dimension, Range):
            share = settings.range_window or share
        return window(dimension, centres.get(dimension.key, NoDefault), share, length, _LEAST_VALUES)


def _groups(key: str, history: History, weights: Weights) -> dict[Value, list[float]]:
    """Return the losses by value of a dimension; the values are in the order of their earliest trials."""
    losses: dict[Value, list[float]] = {}
    for trial, loss in sorted(zip(history, history.losses(weights), strict=True), key=lambda pair: pair[0].number):
        if key in trial.point:
            losses.setdefault(trial.point[key], []).append(loss)
    return losses
