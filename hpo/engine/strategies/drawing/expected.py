"""Predicts the best point at a scale, and a window around each value of this point, from the trials so far."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hpo.engine.strategies.drawing.draws import window
from hpo.engine.strategies.drawing.shift import LEAST_SHARE, elite, fit_shift, place_of, ranked_scales
from hpo.trials.space.dimensions import Choices, Dimension, Range, Value
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial

# The prior on how far the best value moves from the smallest scale to the target: its standard deviation, as a share of
# the dimension.
_MOVES = 0.2
# The spread of the best values is computed from at least this many best trials; a scale with fewer uses the spread of a
# smaller scale.
_LEAST_BEST = 3
# A window reaches this many standard deviations to either side.
DEVIATIONS = 2.0
# The fewest values in a window: the centre and a neighbour on each side.
LEAST_VALUES = 3
# If the best value is in this share of its window at either end, the length of the next window is doubled.
_EDGE = 0.1


@dataclass(frozen=True)
class Expected:
    """The expected best point at a scale; `space` has a window around the point's value in each dimension."""

    point: Point
    space: Space

    def is_at_edge(self, dimension: Dimension, value: Value) -> bool:
        """Return whether a value is near an end of its window, and the dimension continues beyond that end."""
        inner = next(d for d in self.space.dimensions if d.key == dimension.key)
        low, high = (dimension.to_unit(end) for end in _ends(inner))
        unit, edge = dimension.to_unit(value), _EDGE * (high - low)
        first, last = (dimension.to_unit(end) for end in _ends(dimension))
        return (low > first and unit <= low + edge) or (high < last and unit >= high - edge)


def expect(
    space: Space, known: Sequence[Sequence[Trial]], doublings: Sequence[float], at: float, span: float, share: float
) -> Expected | None:
    """Return the expected best point at a scale, with a window around each of its values; None without complete trials.

    The last scale is the largest scale with complete trials. At the last scale itself, each window is centred on the
    best trial's value. At a larger scale, the centre is the rank-weighted mean of the last scale's best trials, plus
    the expected move of the best value. The expected move is the average of the fitted move (`fit_shift`) and a prior
    of no move, weighted by their precisions. The prior is normal. Its standard deviation for a move from the smallest
    scale to the target is a fifth of the dimension's length. If the expected point is not in the space, the point of
    the best trial replaces it.

    A window reaches 2 s to each side of its centre, where s is the square root of (spread^2 + error^2). The spread is
    the standard deviation of the best trials' values. The error is the standard error of the expected move. The spread
    is computed at the largest scale with at least three best trials. If no scale has three, the spread is computed at
    the scale with the most best trials.

    A window has at least a tenth of the dimension's length, and contains the neighbouring values of its centre. For
    unordered choices, the window has the values of the best trials. If a dimension is inactive in the best trial, its
    window is the whole dimension.

    The last scale has a window, too: the one that this function predicts for it from the smaller scales. If the best
    value at the last scale is near an end of that window, the new window is twice as long.

    Sources: for the windows, see `ShiftingWindow`; for the weights by rank, Hansen 2016, "The CMA evolution strategy: a
    tutorial", equation 49; for the constants, benchmarks/ladder/simulated.py.

    Args:
        space: the space of the points at a single scale.
        known: the trials of each scale, the smallest scale first, as points of `space`.
        doublings: the logarithm to base 2 of the cost of a training, for each scale.
        at: the logarithm to base 2 of the cost of a training at the scale to predict.
        span: the number of doublings from the smallest scale to the target: the difference of their logarithms.
        share: the share of a scale's trials that count as its best trials.
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
        best_place = place_of(dimension, best)
        if key not in leader or best_place is None:
            dimensions.append(dimension)
        elif isinstance(dimension, Choices):
            values = [trial.point.get(key, ...) for trial in (*best, *enough[-1])]
            dimensions.append(replace(dimension, values=tuple(value for value in dimension.values if value in values)))
        else:
            slope, error = _slope(
                dimension, space, list(ranked.values()), [doublings[place] for place in ranked], _MOVES / span
            )
            if away:
                point[key] = dimension.from_unit(best_place.mean + slope * away)
            spread = (place_of(dimension, enough[-1]) or best_place).spread
            length = 2 * DEVIATIONS * math.hypot(spread, error * away)
            if before is not None and before.is_at_edge(dimension, leader[key]):
                length *= 2
            dimensions.append(window(dimension, point[key], min(1.0, max(length, LEAST_SHARE)), least=LEAST_VALUES))
    return Expected(point if space.contains(point) else leader, replace(space, dimensions=tuple(dimensions)))


def _slope(
    dimension: Dimension, space: Space, ranked: Sequence[Sequence[Trial]], doublings: Sequence[float], moves: float
) -> tuple[float, float]:
    """Return how far the best value moves per doubling of cost, and the standard error of this move.

    Both are shares of the dimension's length.
    """
    shift = fit_shift(dimension, space.dimensions, ranked, doublings)
    if shift is None:
        return 0.0, moves
    weight = moves**2 / (moves**2 + shift.error**2)
    return weight * shift.slope, math.sqrt(weight) * shift.error


def _ends(dimension: Dimension) -> tuple[Value, Value]:
    if isinstance(dimension, Range):
        return dimension.low, dimension.high
    return dimension.values[0], dimension.values[-1]
