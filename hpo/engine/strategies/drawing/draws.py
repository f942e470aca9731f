"""Draws points that have not been tried."""

from collections.abc import Callable, Collection

import numpy as np

from hpo.trials.space.space import Point, Space, point_key

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
