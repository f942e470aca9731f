"""Draws points that have not been tried."""

from collections.abc import Callable, Collection

import numpy as np

from hpo.engine.space.space import Point, Space, point_key

# After so many draws in a row that hit tried points, a finite space is listed instead. With a share f of the space
# tried, 100 misses in a row have probability f**100: the space is nearly exhausted then.
_PATIENCE = 100


def draw_untried(
    space: Space,
    rng: np.random.Generator,
    tried: Collection[str],
    count: int,
    propose: Callable[[], Point] | None = None,
) -> list[Point]:
    """Return up to `count` different points outside `tried`; fewer only where the space has no more.

    `tried` holds the keys of points. `propose` draws one candidate, by default uniformly from the space; after it
    proposed only tried points, the rest is drawn uniformly from the untried ones.
    """
    drawn: dict[str, Point] = {}
    while len(drawn) < count:
        new = _by_rejection(tried, drawn, propose, space) if propose else None
        if new is None:
            # Not called again: once a long study has converged, each further point would cost as many failed draws.
            propose = None
        new = new or _by_rejection(tried, drawn, lambda: space.draw(rng), space)
        if new is None:
            return [*drawn.values(), *_from_list(space, rng, tried, drawn, count - len(drawn))]
        key, point = new
        drawn[key] = point
    return list(drawn.values())


def _by_rejection(
    tried: Collection[str], drawn: Collection[str], propose: Callable[[], Point], space: Space
) -> tuple[str, Point] | None:
    for _ in range(_PATIENCE):
        point = propose()
        key = point_key(point)
        if key not in tried and key not in drawn and space.keeps_rules(point):
            return key, point
    return None


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
