"""Draws points that have not been tried."""

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from hpo.trials.space.dimensions import Choices, Dimension, NoDefault, Range, Value
from hpo.trials.space.space import Point, Space, point_key

# The share of a range around a default for the first points: a default says where to look first, not only.
_SHARE = 0.5

Centre = Value | type[NoDefault]


def draw_stratified(space: Space, rng: np.random.Generator, tried: Collection[str], count: int) -> list[Point]:
    """Return up to `count` different points outside `tried`, each dimension's values used as evenly as possible.

    Every dimension is cut into `count` strata of equal probability, and each point is in a different stratum of every
    dimension; one with a default is drawn from the half of its range around it. A point that breaks the rules of the
    space, or was tried before, is replaced by a random one.

    Source: Latin hypercube sampling, McKay, Beckman & Conover 1979, "A comparison of three methods for selecting values
    of input variables in the analysis of output from a computer code", Technometrics 21.
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


def window(dimension: Dimension, centre: Centre, share: float, length: int | None = None, least: int = 1) -> Dimension:
    """Return the dimension narrowed to a window, clipped to stay inside its range; choices have none, and stay whole.

    The value `centre` is in its middle; `NoDefault` = the middle of the range (the lower one of an even number). Its
    length is a `share` of the range (of its logarithm with `log`), at least `least` values; or `length` values.
    """
    if isinstance(dimension, Choices):
        return dimension
    if isinstance(dimension, Range):
        return _range_window(dimension, centre, share)
    values = dimension.values
    length = min(length or max(least, round(share * len(values))), len(values))
    middle = (len(values) - 1) // 2 if isinstance(centre, type) else values.index(centre)
    first = min(max(middle - length // 2, 0), len(values) - length)
    return replace(dimension, values=values[first : first + length])


def _range_window(dimension: Range, centre: Centre, share: float) -> Dimension:
    half = share / 2
    unit = dimension.to_unit(centre) if isinstance(centre, int | float) else 0.5
    unit = min(max(unit, half), 1 - half)
    low, high = dimension.from_unit(unit - half), dimension.from_unit(unit + half)
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    return replace(dimension, low=low, high=high)


# After so many draws in a row that hit tried points, a finite space is listed instead. With a share f of the space
# tried, 100 misses in a row have probability f**100: the space is nearly exhausted then.
_PATIENCE = 100
# Where a strategy names no patience: so many unusable candidates in a whole call, and so many more per point, before
# the rest is drawn uniformly. A long study has tried most of what is near the best, and every candidate costs.
_PATIENCE_PROPOSED, _PATIENCE_PER_POINT = 64, 4


def draw_untried(
    space: Space,
    rng: np.random.Generator,
    tried: Collection[str],
    count: int,
    propose: Callable[[], Point] | None = None,
    patience: int | None = None,
) -> list[Point]:
    """Return up to `count` different points outside `tried`; fewer only where the space has no more.

    `tried` holds the keys of points. `propose` draws one candidate, by default uniformly from the space; after
    `patience` unusable candidates in a row (tried before, against the rules), the rest is drawn uniformly from the
    untried points. None = after 64 in all, and 4 more for each point.
    """
    drawn: dict[str, Point] = {}
    left = _PATIENCE_PROPOSED + _PATIENCE_PER_POINT * count if patience is None else patience
    while propose is not None and left and len(drawn) < count:
        if not _add_untried(space, tried, drawn, propose()):
            left -= 1
        elif patience is not None:
            left = patience
    while len(drawn) < count:
        if not any(_add_untried(space, tried, drawn, space.draw(rng)) for _ in range(_PATIENCE)):
            return [*drawn.values(), *_from_list(space, rng, tried, drawn, count - len(drawn))]
    return list(drawn.values())


def _add_untried(space: Space, tried: Collection[str], drawn: dict[str, Point], point: Point) -> bool:
    """Add the point to those drawn, if it is new and keeps the rules; return whether."""
    key = point_key(point)
    if key in tried or key in drawn or not space.keeps_rules(point):
        return False
    drawn[key] = point
    return True


def _from_list(
    space: Space, rng: np.random.Generator, tried: Collection[str], drawn: Collection[str], count: int
) -> list[Point]:
    """Return `count` untried points of a finite space, every set equally likely."""
    if space.size is None:
        return []
    keyed = ((point_key(point), point) for point in space.points())
    untried = [point for key, point in keyed if key not in tried and key not in drawn]
    order = rng.permutation(len(untried))[:count]
    return [untried[int(i)] for i in order]
