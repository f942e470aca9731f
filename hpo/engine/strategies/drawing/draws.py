"""Draws points that have not been tried."""

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from hpo.trials.space.dimensions import Choices, Dimension, NoDefault, Range, Value
from hpo.trials.space.space import Point, Space, point_key

# If a dimension has a default, first points are drawn from this share of it, around the default. The share is not
# smaller, because the default is only a hint.
_SHARE = 0.5

Centre = Value | type[NoDefault]


def draw_stratified(space: Space, rng: np.random.Generator, tried: Collection[str], count: int) -> list[Point]:
    """Return up to `count` different points outside `tried`, spread evenly over the values of each dimension.

    Every dimension is cut into `count` strata of equal probability, and each stratum gets one point. An ordered
    dimension with a default is drawn from half of its values, around the default. A random point replaces each point
    that breaks the rules of the space or was tried before. As in `draw_untried`, there may be fewer points.

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
    return [dimension.from_unit(unit) for unit in ((rng.permutation(count) + rng.random(count)) / count).tolist()]


def window(dimension: Dimension, centre: Centre, share: float, length: int | None = None, least: int = 1) -> Dimension:
    """Return the dimension narrowed to a window. Return a dimension of unordered choices unchanged.

    Near an end of the dimension, the window is moved so that it stays inside the dimension.

    Args:
        dimension: the dimension.
        centre: the value in the middle of the window; `NoDefault` = the middle of the dimension (the lower of two
            middle values).
        share: the length of the window, as a share of the dimension's length. The length of a list is its number of
            values. The length of a range is the difference of its ends (with `log`, of the ends' logarithms).
        length: for a dimension with an ordered list of values, the number of values in the window; None = use `share`.
        least: for such a dimension, the least number of values in the window if `share` determines the length.
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
    return replace(dimension, low=low, high=high)


# After this many draws in a row that gave no new point, list the untried points of a finite space. If a share f of the
# space has been tried, 100 such draws in a row have probability f**100, so the space is then nearly exhausted.
_PATIENCE = 100
# The number of unusable candidates after which the rest is drawn uniformly, if no `patience` is given: so many per call
# plus so many per point. In a long study, most points near the best have been tried, and every candidate costs time.
_PATIENCE_PROPOSED, _PATIENCE_PER_POINT = 64, 4


def draw_untried(
    space: Space,
    rng: np.random.Generator,
    tried: Collection[str],
    count: int,
    propose: Callable[[], Point] | None = None,
    patience: int | None = None,
) -> list[Point]:
    """Return up to `count` different untried points.

    Return fewer if a finite space has no more. In a space that cannot be listed (`Space.size` is None), also return
    fewer if 100 uniform draws in a row give no new point.

    Args:
        space: the space.
        rng: the random generator.
        tried: the keys of the points that were tried before.
        count: the number of points.
        propose: draws one candidate; None = draw points uniformly from the space.
        patience: after this many unusable candidates in a row, draw the remaining points uniformly. A candidate is
            unusable if it was tried before or breaks the rules. None = draw uniformly after 64 + 4 * `count` unusable
            candidates in total.
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
    """Add a point to `drawn` if it is new and keeps the rules; return whether it was added."""
    key = point_key(point)
    if key in tried or key in drawn or not space.keeps_rules(point):
        return False
    drawn[key] = point
    return True


def _from_list(
    space: Space, rng: np.random.Generator, tried: Collection[str], drawn: Collection[str], count: int
) -> list[Point]:
    """Return up to `count` random untried points of a finite space; return [] if the space cannot be listed."""
    if space.size is None:
        return []
    keyed = ((point_key(point), point) for point in space.points())
    untried = [point for key, point in keyed if key not in tried and key not in drawn]
    order = rng.permutation(len(untried))[:count]
    return [untried[int(i)] for i in order]
