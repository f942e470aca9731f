"""Shifting-window search: random draws from a window that moves to the best value of every dimension."""

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
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial

# The shortest window of random length, in values: the centre and a neighbour on each side.
_LEAST_VALUES = 3


def _odd(value: int) -> int:
    if value % 2 == 0:
        raise ValueError("must be odd, so that the window has a middle")
    return value


def _flat(given: Any) -> Any:
    return flatten(given) if isinstance(given, Mapping) else given


Window = Annotated[int, Field(ge=1, le=MOST), AfterValidator(_odd)]


class ShiftingWindowSettings(Settings):
    """Settings of shifting-window search; conf/strategy/shifting_window.yaml says what each is."""

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
    """N rounds of N' random draws; after each, every window moves to the value with the best results.

    First points: from the whole space, spread evenly over every dimension, or from windows in the middle of every
    range, or around `start` or the dimension's default. After a round, per dimension, the value that led to the best
    performance among all trials so far becomes the centre of its window, which is clipped to stay inside the range. A
    draw changes only some dimensions (`moving`): each to a random value of its window. Without a given length, the
    windows of each draw are a share of the range that is log-uniform between 1 and first_draws / trials so far, at
    least three values: draws come ever closer to the best, but never only there. Choices have no window: they are drawn
    from all their values. With `draws: 1` the windows move with every trial that becomes known.

    It can get stuck, as evolutionary search can, where nothing better is within reach of the best point: of 648
    searches on made-up problems 43 gained nothing from trial 30 to trial 100 without being at the optimum, of
    `evolutionary` 48 (benchmarks/strategy_defaults).

    With several metrics the best trial is that of the least loss by weights of the metrics, which are drawn for each
    proposal, so that the windows come to all of the front (ParEGO: Knowles 2006). Failures, and trials that exceed a
    limit, count as worst; once there are some, `Preselection` takes of several draws the first that is not likely to
    fail. Ties go to the earlier trial; while every trial has failed points are drawn as at first. Where the windows
    hold no untried point, one is drawn from the whole space. Ends after N rounds, or when a finite space is exhausted.

    Source: lecture "Hyperparameter Optimization", CIS, LMU Munich, 2020, which does not specify which trials are used
    and how credit is given: here it is all trials so far, and `credit` says how. Its literal method is `window: 3`,
    `opening: window`, `moving: 1`, which is random search where the ranges are as short as the windows.

    Example: over the range 4, 8, 16, 32, 64, 128, 256 with `window: 3`, `opening: window`, the first window is 16, 32,
    64. If 64 is best, the next window is 32, 64, 128; if 256 is best, 64, 128, 256.
    """

    # Rises where the same settings, history and seed would give other points.
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
                    f"strategy.windows.{key}: has no effect on a range; set strategy.range_window, or give it points"
                )
        for key, value in self.settings.start.items():
            if not allows(windowed[key], value):
                raise ConfigError(f"strategy.start.{key}: {value!r} is not in the range; give one of its values")
        if self.settings.start and self.settings.opening == "space":
            raise ConfigError("strategy.start: has no effect with opening=space; set strategy.opening=window")
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
        if (self.settings.window or 0) > longest:
            raise ConfigError(
                f"strategy.window: is longer than every ordered range of the space, given {self.settings.window} "
                f"where the longest has {longest} values; give an odd number up to that"
            )

    @property
    def first_draws(self) -> int:
        """The number of points drawn in the first round."""
        return self.settings.first_draws or self.settings.draws

    @property
    def announcement(self) -> str:
        """One line on the windows and rounds."""
        settings = self.settings
        windows = f"windows of {settings.window} values" if settings.window else "windows of random length"
        draws = "then one at a time" if settings.draws == 1 else f"each later round of {settings.draws}"
        rounds = f"{settings.rounds} rounds, " if settings.rounds else ""
        return f"shifting window: {rounds}{self.first_draws} draws first, {draws}, {windows}"

    @property
    def learns(self) -> Learns:
        """By rounds, where several points are drawn in one."""
        return "by_round" if self.settings.draws > 1 else "by_trial"

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point]:
        """Return untried points from the windows that follow from what is known."""
        settings = self.settings
        if pending and self.learns == "by_round":
            return []
        if settings.rounds and next_round([*known, *pending]) >= settings.rounds:
            return []
        rng, tried = generator(self.seed, known, pending), known.tried(pending)
        num_proposed = len(known) + len(pending)
        missing = self.first_draws - num_proposed
        # With several metrics another leader each time: the weights are drawn for each proposal (ParEGO).
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
        """Return the value at the centre of each window by key, without dimensions that have no results yet."""
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
                    # min() keeps the first of equals; the groups are in the order of their earliest trial.
                    centres[key] = min(groups, key=lambda value: average(groups[value]))
            elif key in leaders[0].point:
                centres[key] = leaders[0].point[key]
            else:  # A dimension that the best trial does not have.
                having = (t for t in history.ranked(None, weights) if key in t.point and t.score is not None)
                leader = next(having, None)
                if leader is not None:
                    centres[key] = leader.point[key]
        return centres

    def draw(self, centres: Mapping[str, Value], shortest: float, moving: float, rng: np.random.Generator) -> Point:
        """Return a point: some dimensions drawn from their windows, the others at the centres of theirs.

        A window without a centre is in the middle of its dimension; `shortest` is the least share of a random window.
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
        """Return the dimension narrowed to its window; `share` is its length where the settings give none."""
        settings = self.settings
        length = settings.windows.get(dimension.key, settings.window)
        if isinstance(dimension, Range):
            share = settings.range_window or share
        return window(dimension, centres.get(dimension.key, NoDefault), share, length, _LEAST_VALUES)


def _groups(key: str, history: History, weights: Weights) -> dict[Value, list[float]]:
    """Return the losses of each value's trials, the values in the order of their earliest trial."""
    losses: dict[Value, list[float]] = {}
    for trial, loss in sorted(zip(history, history.losses(weights), strict=True), key=lambda pair: pair[0].number):
        if key in trial.point:
            losses.setdefault(trial.point[key], []).append(loss)
    return losses
