"""The interface of strategies: one pure function from the history to the next round."""

from collections.abc import Sequence
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from hpo.engine.space.space import Point, Space
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Proposal

# Bound of every count in a strategy's settings: a longer round would not fit into memory.
MOST = 1_000_000


class Strategy(Protocol):
    """Proposes points; all points of a round are finished before it proposes again.

    The answer depends only on the settings, the space, the seed and the history. Randomness is
    `numpy.random.default_rng((seed, len(history)))`, so a resumed study gets the same round again.
    """

    @property
    def space(self) -> Space:
        """The space searched."""
        ...

    @property
    def announcement(self) -> str:
        """One line for the user about the search, shown before it starts."""
        ...

    def next_round(self, history: History) -> Sequence[Point | Proposal]:
        """Return the next round: points that are all new; empty when the search is over.

        `history` holds the finished trials of all earlier rounds, failures included; before them, with
        rounds below 0, those imported from other studies. A strategy that trains by amounts returns
        proposals: the same point may then be proposed again, to be trained further.
        """
        ...


class Settings(BaseModel):
    """Base of every strategy's settings: frozen, no unknown keys; the values are in conf/strategy."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: str
