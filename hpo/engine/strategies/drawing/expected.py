"""What is expected at a scale by the trials at smaller ones: its best point, and windows around it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hpo.engine.strategies.drawing.draws import window
from hpo.engine.strategies.drawing.shift import (
    LEAST_SHARE,
    elite,
    fit_shift,
    from_unit,
    place_of,
    ranked_scales,
    to_unit,
)
from hpo.trials.space.dimensions import Choices, Dimension, Range, Value
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial

# How far the best is expected to move over all scales before a trial says anything: the standard deviation, as a share
# of the dimension.
_MOVES = 0.2
# So many of the best trials say how far the best values are spread; with fewer a smaller scale does.
_LEAST_BEST = 3
# A window reaches this many standard deviations to either side.
DEVIATIONS = 2.0
# The shortest window, in values: the centre and a neighbour on each side.
LEAST_VALUES = 3
# A best value in this share of its window, at either end, doubles the next one.
_EDGE = 0.1


@dataclass(frozen=True)
class Expected:
    """What is expected at a scale: its best point, and the windows around it as a space."""

    point: Point
    space: Space

    def is_at_edge(self, dimension: Dimension, value: Value) -> bool:
        """Return whether a value is at an end of its window, which is none of the whole dimension."""
        inner = next(d for d in self.space.dimensions if d.key == dimension.key)
        low, high = (to_unit(dimension, end) for end in _ends(inner))
        unit, edge = to_unit(dimension, value), _EDGE * (high - low)
        first, last = (to_unit(dimension, end) for end in _ends(dimension))
        return (low > first and unit <= low + edge) or (high < last and unit >= high - edge)


def expect(
    space: Space, known: Sequence[Sequence[Trial]], doublings: Sequence[float], at: float, span: float, share: float
) -> Expected | None:
    """Return what is expected where a training costs `at` doublings; None where no trial is complete.

    At a larger scale the centre of a window is the mean of the best trials of the last one, weighted by rank, moved on
    as far as the best values move; at the same scale it is the best trial. How far they move is a mean of what the fit
    says (`fit_shift`) and of what is taken for true before any trial, that they stay, weighted by their precisions: a
    normal prior, whose standard deviation is a fifth of the dimension from the smallest scale to the target. A window
    has two standard deviations to each side, of the best values (of the last scale where three or more are among the
    best) and of where they move, and never less than the neighbouring values; one whose end won at the scale before is
    twice as long. Of choices those stay that the best trials have.

    Sources: windows: see `ShiftingWindow`; weights by rank: Hansen 2016, "The CMA evolution strategy: a tutorial",
    equation 49; the numbers: benchmarks/ladder/simulated.py.

    Args:
        known: the trials of each scale, the smallest first, as points of `space`.
        doublings: the logarithm to base 2 of what a training costs at each of these scales.
        span: that of the target's cost, less that of the smallest scale's.
        share: how many of a scale's trials are its best.
    """
    ranked = ranked_scales(known)
    if not ranked:
        return None
    last = max(ranked)
    away = at - doublings[last]
    leader = ranked[last][0].point
    best = elite(ranked[last], share)
    bests = [elite(trials, share) for trials in ranked.values()]
    enough = [trials for trials in bests if len(trials) >= _LEAST_BEST] or [max(bests, key=len)]
    before = expect(space, known[:last], doublings, doublings[last], span, share)
    point, dimensions = dict(leader), list[Dimension]()
    for dimension in space.dimensions:
        key = dimension.key
        found = place_of(dimension, best)
        if key not in leader or found is None:
            dimensions.append(dimension)
        elif isinstance(dimension, Choices):
            values = [trial.point.get(key, ...) for trial in (*best, *enough[-1])]
            dimensions.append(replace(dimension, values=tuple(value for value in dimension.values if value in values)))
        else:
            slope, error = _slope(
                dimension, space, list(ranked.values()), [doublings[place] for place in ranked], _MOVES / span
            )
            if away:
                point[key] = from_unit(dimension, found.mean + slope * away)
            spread = (place_of(dimension, enough[-1]) or found).spread
            length = 2 * DEVIATIONS * math.hypot(spread, error * away)
            if before is not None and before.is_at_edge(dimension, leader[key]):
                length *= 2
            dimensions.append(window(dimension, point[key], min(1.0, max(length, LEAST_SHARE)), least=LEAST_VALUES))
    return Expected(point if space.contains(point) else leader, replace(space, dimensions=tuple(dimensions)))


def _slope(
    dimension: Dimension, space: Space, ranked: Sequence[Sequence[Trial]], doublings: Sequence[float], moves: float
) -> tuple[float, float]:
    """Return how far the best moves with each doubling, as a share of the dimension, and the error of that."""
    shift = fit_shift(dimension, space.dimensions, ranked, doublings)
    if shift is None:
        return 0.0, moves
    weight = moves**2 / (moves**2 + shift.error**2)
    return weight * shift.slope, math.sqrt(weight) * shift.error


def _ends(dimension: Dimension) -> tuple[Value, Value]:
    if isinstance(dimension, Range):
        return dimension.low, dimension.high
    return dimension.values[0], dimension.values[-1]
