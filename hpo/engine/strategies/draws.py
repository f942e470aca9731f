"""Drawing points that have not been tried."""

from collections.abc import Callable, Collection

import numpy as np

from hpo.engine.space.space import Point, Space, point_key

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
        propose: draws one candidate; by default uniformly from the space. Once it has found nothing new, the
            remaining points are drawn uniformly from what is untried.
    """
    drawn: dict[str, Point] = {}
    while len(drawn) < count:
        found = _by_rejection(tried, drawn, propose, space) if propose else None
        if found is None:
            # Not asked again: where a long study has converged, each further point would cost as many vain draws.
            propose = None
        found = found or _by_rejection(tried, drawn, lambda: space.draw(rng), space)
        if found is None:
            return [*drawn.values(), *_from_list(space, rng, tried, drawn, count - len(drawn))]
        key, point = found
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
    """Return `count` of the untried points of a finite space, each set of them as likely as any other."""
    if space.size is None:
        return []
    keyed = ((point_key(point), point) for point in space.points())
    untried = [point for key, point in keyed if key not in tried and key not in drawn]
    order = rng.permutation(len(untried))[:count]
    return [untried[int(i)] for i in order]
