"""Uniform random search without repeats."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.strategies.strategy import MOST, Learns, Settings, generator
from hpo.formatting import format_count
from hpo.trials.history import History
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial


class RandomSettings(Settings):
    """Settings of random search, described in conf/strategy/random.yaml."""

    round_size: int = Field(ge=1, le=MOST)


@dataclass(frozen=True)
class RandomSearch:
    """Draw every dimension uniformly (log-uniformly on log ranges), and never the same point twice.

    The first points are drawn like all others. Failures and ties have no influence. The search ends when a finite space
    is exhausted.

    Source: Bergstra & Bengio 2012, "Random Search for Hyper-Parameter Optimization", JMLR 13. Points are drawn without
    replacement, which the paper does not specify.

    Example: over `num_layers` in 1, 2, 3, the search tries the three values in a random order and ends.
    """

    REVISION: ClassVar[int] = 1

    settings: RandomSettings
    space: Space
    seed: int

    @property
    def announcement(self) -> str:
        """One line of text about the size of the space."""
        points = "a space too large to count" if self.space.size is None else format_count(self.space.size, "point*")
        return f"random: {points}, drawn uniformly without repeats"

    learns: ClassVar[Learns] = "never"

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point]:
        """Return `round_size` untried points, or all that are left."""
        rng = generator(self.seed, known, pending)
        return draw_untried(self.space, rng, known.tried(pending), self.settings.round_size)
