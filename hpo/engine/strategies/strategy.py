"""What every strategy is: one pure function from the history to the next round."""

from collections.abc import Sequence
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from hpo.engine.space.space import Point, Space
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Proposal

# Bound of every count in a strategy's settings: a longer round would not fit into memory before its first trial starts.
MOST = 1_000_000


class Strategy(Protocol):
    """Proposes points; all of a round are finished before it proposes again.

    The answer depends on nothing but the settings, the space, the seed and the history. Randomness is
    `numpy.random.default_rng((seed, len(history)))`, so a resumed study asks again and gets the same round.
    """

    @property
    def space(self) -> Space:
        """The space searched."""
        ...

    @property
    def announcement(self) -> str:
        """One line that tells a user what is about to happen, shown before the search starts."""
        ...

    def next_round(self, history: History) -> Sequence[Point | Proposal]:
        """Return the next round: points that are all new; empty when the search is over.

        `history` holds every trial of every earlier round, all finished, failures included; before them, with
        rounds below 0, those imported from other studies. A strategy that trains points by different amounts returns
        proposals: the same point may then come again, to be trained further.
        """
        ...


class Settings(BaseModel):
    """Base of every strategy's settings: frozen, no unknown keys; the values stand in conf/strategy."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: str
