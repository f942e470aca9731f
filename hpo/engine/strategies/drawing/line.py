"""What the first ladders expected at a scale: a straight line through the places of the best values.

A study that was begun so goes on so; a new one has `expect`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hpo.engine.space.dimensions import Choices, Dimension
from hpo.engine.space.space import Space
from hpo.engine.strategies.drawing.expected import DEVIATIONS, LEAST_VALUES, Expected
from hpo.engine.strategies.drawing.places import (
    EVEN,
    LEAST_SHARE,
    Place,
    elite,
    from_unit,
    place_of,
    ranked_scales,
    to_unit,
)
from hpo.engine.strategies.drawing.stratified import window
from hpo.engine.trials.trial import Trial

_LEAST_BEST = 2


def expect_by_line(
    space: Space, known: Sequence[Sequence[Trial]], doublings: Sequence[float], at: float, share: float
) -> Expected | None:
    """Return what is expected where a training costs `at` doublings; arguments as of `expect`.

    The best trial of the last scale is moved on by the slope of a line through the places of the best values, which is
    shrunk by its own uncertainty (James & Stein 1961, positive part); windows reach as far as those of `expect`.
    """
    ranked = ranked_scales(known)
    if not ranked:
        return None
    last = max(ranked)
    away = at - doublings[last]
    leader = ranked[last][0].point
    before = expect_by_line(space, known[:last], doublings, doublings[last], share)
    best = [trial.point for trial in elite(ranked[last], share, _LEAST_BEST)]
    point, dimensions = dict(leader), list[Dimension]()
    for dimension in space.dimensions:
        key = dimension.key
        if key not in leader:
            dimensions.append(dimension)
        elif isinstance(dimension, Choices):
            kept = tuple(value for value in dimension.values if any(value == other.get(key, ...) for other in best))
            dimensions.append(replace(dimension, values=kept))
        else:
            places = {place: place_of(dimension, elite(trials, share, _LEAST_BEST)) for place, trials in ranked.items()}
            slope, error = _line({doublings[place]: found for place, found in places.items() if found})
            if slope and away:
                point[key] = from_unit(dimension, to_unit(dimension, leader[key]) + slope * away)
            spread = EVEN if (found := places[last]) is None else found.spread
            length = 2 * DEVIATIONS * math.hypot(spread, error * away)
            if before is not None and before.is_at_edge(dimension, leader[key]):
                length *= 2
            dimensions.append(window(dimension, point[key], min(1.0, max(length, LEAST_SHARE)), least=LEAST_VALUES))
    return Expected(point if space.contains(point) else leader, replace(space, dimensions=tuple(dimensions)))


def _line(places: Mapping[float, Place]) -> tuple[float, float]:
    """Return the slope of a line through places over the logarithm of cost, and its standard error; 0 with one."""
    if len(places) < 2:
        return 0.0, 0.0
    x = np.array(list(places))
    y = np.array([place.mean for place in places.values()])
    # Never certain: the places are those of finitely many trials.
    weights = np.array([place.count / max(place.spread, LEAST_SHARE) ** 2 for place in places.values()])
    away = x - weights @ x / weights.sum()
    information = float(weights @ away**2)
    slope, error = float(weights @ (away * y)) / information, math.sqrt(1 / information)
    return slope * max(0.0, 1 - (error / slope) ** 2) if slope else 0.0, error
