"""Grid search: tries every combination of values. Each dimension must have finitely many values."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from hpo.engine.strategies.strategy import MOST, Learns, Settings
from hpo.errors import SpaceError
from hpo.trials.history import History
from hpo.trials.space.dimensions import Range
from hpo.trials.space.space import COUNTABLE, Point, Space, point_key
from hpo.trials.trial import Trial


class GridSettings(Settings):
    """Settings of grid search, described in conf/strategy/grid.yaml."""

    order: Literal["lexicographic", "shuffled"]
    max_points: int = Field(ge=1, le=MOST)
    round_size: int = Field(ge=1, le=MOST)


@dataclass(frozen=True)
class GridSearch:
    """Try every point of a finite space once.

    The setting `order` gives the order of the points, from the first proposal on. Failed trials and equal scores do
    not change this order. The search ends when all points have been tried.

    Raises:
        SpaceError: a range of real numbers has no `points`, the grid is larger than `max_points`, or it is too
            large to check it against the rules.

    Example: with the values 1 and 2 for `num_layers`, and 0.1 and 0.01 for `lr`, the lexicographic order of the points
    is (1, 0.1), (1, 0.01), (2, 0.1), (2, 0.01).
    """

    REVISION: ClassVar[int] = 1

    settings: GridSettings
    space: Space
    seed: int

    def __post_init__(self) -> None:
        for dimension in self.space.dimensions:
            if isinstance(dimension, Range) and not dimension.integer:
                raise SpaceError(
                    f"space.{dimension.key}: grid search needs finitely many values, given a range from "
                    f"{dimension.low} to {dimension.high}; add points, such as space.{dimension.key}.points=5"
                )
        size = self.space.size
        if size is None:
            raise SpaceError(
                f"space.require: grid search checks at most {COUNTABLE:,} combinations of values against the rules, "
                f"given more; give fewer values"
            )
        if size > self.settings.max_points:
            raise SpaceError(
                f"space: the grid must have at most {self.settings.max_points:,} points, given {size:,}; give fewer "
                f"values, or raise strategy.max_points"
            )

    @property
    def announcement(self) -> str:
        """One line of text about the number of points."""
        return f"grid: {self.space.size:,} points in {self.settings.order} order"

    learns: ClassVar[Learns] = "never"

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point]:
        """Return the next `round_size` untried points, in the configured order."""
        points: Sequence[Point] = list(self.space.points())
        if self.settings.order == "shuffled":
            # The seed does not depend on the number of trials, so the whole search has one order.
            points = [points[int(i)] for i in np.random.default_rng(self.seed).permutation(len(points))]
        tried = known.tried(pending)
        untried = (point for point in points if point_key(point) not in tried)
        return list(itertools.islice(untried, self.settings.round_size))
