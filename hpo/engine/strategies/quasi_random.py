"""Quasi-random search: the points of a Sobol' or Halton sequence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field

from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.strategies.strategy import MOST, Learns, Settings, generator
from hpo.formatting import format_count
from hpo.trials.history import History
from hpo.trials.space.dimensions import Dimension, Range, Value
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Trial

# For n points proposed so far, the search uses at most the first _SEQUENCE_STRETCH * n + _SEQUENCE_START points of the
# sequence, and draws missing points uniformly. Points are missing if a finite space is nearly exhausted, or if fewer
# than one point in five keeps the rules of the space.
_SEQUENCE_STRETCH = 5
_SEQUENCE_START = 100


class QmcSettings(Settings):
    """Settings of quasi-random search, described in conf/strategy/qmc.yaml."""

    sequence: Literal["sobol", "halton"]
    scramble: bool
    round_size: int = Field(ge=1, le=MOST)


@dataclass(frozen=True)
class QuasiRandom:
    """Propose the points of a Sobol' or Halton sequence, which fills the space more evenly than independent draws.

    The search starts with the first point of the sequence. Each ordered value or choice takes an equal share of its
    dimension's axis. The search skips points that are outside of the space or were tried before. The results of trials
    have no influence on the points. The search ends when a finite space is exhausted. The last points of a finite space
    are drawn uniformly, because the sequence is slow to reach them. Points are also drawn uniformly if the rules of the
    space exclude most points of the sequence.

    Source: Bergstra & Bengio 2012, "Random Search for Hyper-Parameter Optimization", JMLR 13, section 5; the sequences
    are from SciPy, scrambled as in Owen 1998.

    Example: the space has two dimensions, four ordered values and a range from 0 to 1. The first point of the
    unscrambled Sobol' sequence has the lowest value of both dimensions; the second point has the third value and 0.5.
    """

    REVISION: ClassVar[int] = 1

    settings: QmcSettings
    space: Space
    seed: int

    @property
    def announcement(self) -> str:
        """One line of text about the sequence."""
        kind = "scrambled " if self.settings.scramble else ""
        dimensions = format_count(len(self.space.dimensions), "dimension*")
        return f"qmc: a {kind}{self.settings.sequence} sequence over {dimensions}"

    learns: ClassVar[Learns] = "never"

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point]:
        """Return the next `round_size` untried points of the sequence.

        If the sequence gives too few untried points, draw the other points uniformly from the space.
        """
        count, tried = self.settings.round_size, known.tried(pending)
        rng = generator(self.seed, known, pending)
        remaining = None if self.space.size is None else self.space.size - len(tried)
        if remaining is not None and remaining <= count:
            return draw_untried(self.space, rng, tried, count)
        points: dict[str, Point] = {}
        for place in range(_SEQUENCE_STRETCH * (len(known) + len(pending) + count) + _SEQUENCE_START):
            if len(points) == count:
                break
            key, point = self._sequence[place]
            if key not in tried and key not in points and self.space.contains(point):
                points[key] = point
        return [*points.values(), *draw_untried(self.space, rng, {*tried, *points}, count - len(points))]

    @cached_property
    def _sequence(self) -> "_Sequence":
        return _Sequence(self.space, self.settings, self.seed)


class _Sequence:
    """A quasi-random sequence of points; each point is computed only once.

    Item n is a pair: the key that identifies the n-th point (see `point_key`), and the n-th point.
    """

    def __init__(self, space: Space, settings: QmcSettings, seed: int) -> None:
        from scipy.stats import qmc  # Half a second to load, and only this strategy needs it.

        self._space = space
        self._axes = [dimension for dimension in space.dimensions if len(dimension.values) != 1]
        kind = qmc.Sobol if settings.sequence == "sobol" else qmc.Halton
        self._engine = kind(len(self._axes), scramble=settings.scramble, seed=seed)
        self._points: list[tuple[str, Point]] = []

    def __getitem__(self, place: int) -> tuple[str, Point]:
        while len(self._points) <= place:
            (shares,) = self._engine.random(1)
            values = {axis.key: _value(axis, float(share)) for axis, share in zip(self._axes, shares, strict=True)}
            point: dict[str, Value] = {}
            for dimension in self._space.dimensions:
                if self._space.active(dimension, point):
                    point[dimension.key] = values[dimension.key] if dimension.key in values else dimension.values[0]
            self._points.append((point_key(point), point))
        return self._points[place]


def _value(dimension: Dimension, share: float) -> Value:
    """Return the value at the position `share` (0 <= `share` < 1) of a dimension's axis."""
    if not isinstance(dimension, Range):
        return dimension.from_unit(share)
    if dimension.integer and not dimension.log:
        # `from_unit` would round halves to even numbers and so give them larger parts of the axis.
        return int(min(math.floor(dimension.low + share * (dimension.high - dimension.low + 1)), dimension.high))
    value = dimension.from_unit(share)
    # The upper end of a range of real numbers is at position 1, so no share gives it, not even by rounding.
    return value if dimension.integer else min(value, math.nextafter(dimension.high, dimension.low))
