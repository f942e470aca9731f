"""The first points of a search, spread evenly over every dimension."""

from collections.abc import Collection

import numpy as np

from hpo.engine.space.dimensions import Dimension, Range, Value
from hpo.engine.space.space import Point, Space
from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.strategies.drawing.windows import window

# The share of a range around a default for the first points: a default says where to look first, not only.
_SHARE = 0.5


def draw_stratified(space: Space, rng: np.random.Generator, tried: Collection[str], count: int) -> list[Point]:
    """Return up to `count` different points outside `tried`, each dimension's values used as evenly as possible.

    Every dimension is cut into `count` strata of equal probability, and each point is in a different stratum of
    every dimension; one with a default is drawn from the half of its range around it. A point that breaks the rules
    of the space, or was tried before, is replaced by a random one. A single point is a random draw.

    Source: Latin hypercube sampling, McKay, Beckman & Conover 1979, "A comparison of three methods for selecting
    values of input variables in the analysis of output from a computer code", Technometrics 21.
    """
    columns = {d.key: _column(_around_default(d), rng, count) for d in space.dimensions}
    rows = iter([{key: column[i] for key, column in columns.items()} for i in range(count)])

    def propose() -> Point:
        row = next(rows, None)
        return space.complete({} if row is None else row, rng)

    return draw_untried(space, rng, tried, count, propose)


def _around_default(dimension: Dimension) -> Dimension:
    return dimension if isinstance(dimension.default, type) else window(dimension, dimension.default, _SHARE, least=3)


def _column(dimension: Dimension, rng: np.random.Generator, count: int) -> list[Value]:
    units = ((rng.permutation(count) + rng.random(count)) / count).tolist()
    if isinstance(dimension, Range):
        return [dimension.from_unit(unit) for unit in units]
    return [dimension.values[int(unit * len(dimension.values))] for unit in units]
