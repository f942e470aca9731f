"""Drawing points that have not been tried."""

from collections.abc import Callable, Collection

import numpy as np

from hpo.space import Point, Space, point_key

# Draws in a row that may hit tried points before a finite space is listed instead. With a share f of the
# space tried, 100 misses in a row have probability f**100: listing happens when the space is nearly spent.
_PATIENCE = 100


def draw_untried(
    space: Space,
    rng: np.random.Generator,
    tried: Collection[str],
    count: int,
    propose: Callable[[], Point] | None = None,
) -> list[Point]:
    """Return up to `count` different points outside `tried`; fewer only where the space holds no more.

    Args:
        space: where the points lie.
        rng: the source of randomness.
        tried: keys of the points that must not come again.
        count: how many to draw.
        propose: draws one candidate; by default uniformly from the space. When it finds nothing new, the
            remaining points are drawn uniformly from what is untried.
    """
    taken = set(tried)
    points: list[Point] = []
    while len(points) < count:
        point = _by_rejection(rng, taken, propose, space) if propose else None
        point = point or _by_rejection(rng, taken, None, space)
        if point is None:
            return points + _from_list(space, rng, taken, count - len(points))
        taken.add(point_key(point))
        points.append(point)
    return points


def _by_rejection(
    rng: np.random.Generator, taken: Collection[str], propose: Callable[[], Point] | None, space: Space
) -> Point | None:
    for _ in range(_PATIENCE):
        point = propose() if propose else space.draw(rng)
        if point_key(point) not in taken:
            return point
    return None


def _from_list(space: Space, rng: np.random.Generator, taken: Collection[str], count: int) -> list[Point]:
    """Return `count` of the untried points of a finite space, each set of them as likely as any other."""
    if space.size is None:
        return []
    untried = [point for point in space.points() if point_key(point) not in taken]
    order = rng.permutation(len(untried))[:count]
    return [untried[int(i)] for i in order]
