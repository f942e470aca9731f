"""The interface of strategies: one pure function from what is known and pending to the next points."""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict

from hpo.trials.history import History
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Proposal, Trial

# The limit of every count in a strategy's settings: more points at once would not fit into memory.
MOST = 1_000_000

Learns = Literal["never", "by_round", "by_trial"]


class Strategy(Protocol):
    """Proposes points from the trials known at a time on the study's clock.

    A proposal depends only on the settings, the space, the seed, and the two arguments of `propose`. Random numbers
    come from `numpy.random.default_rng((seed, number of trials proposed))`, so a resumed study gets the same points
    again.

    A strategy of the toolkit has an integer `REVISION`, which its studies record. It increases when the same settings,
    history and seed would give other points. Any other strategy is compared by the content of its files.
    """

    @property
    def space(self) -> Space:
        """The space searched."""
        ...

    @property
    def announcement(self) -> str:
        """One line about the search, which the user reads before it starts."""
        ...

    @property
    def learns(self) -> Learns:
        """When it learns from ended trials: `never`; `by_round`, when no trial is pending; `by_trial`, after each one.

        Only the proposals of `by_trial` can depend on the order in which trials end.
        """
        ...

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point | Proposal]:
        """Return one or more new points.

        An empty list means: ask again when more trials are known. If no trial is pending, it means the end of the
        search. A strategy that trains by amounts returns proposals; it may propose the same point again, to continue
        its training.

        Args:
            known: the trials that have ended, failures included, in the order of their ends. Trials imported from other
                studies come first, with numbers below 0.
            pending: the trials that were proposed and have not ended, without their outcomes.
        """
        ...


def generator(seed: int, known: History, pending: Sequence[Trial]) -> np.random.Generator:
    """Return the random generator of a proposal, which depends on the seed and the number of trials proposed."""
    return np.random.default_rng((seed, len(known) + len(pending)))


def next_round(trials: Iterable[Trial]) -> int:
    """Return the number of the next proposal after those of these trials, from 0."""
    return max((trial.round + 1 for trial in trials), default=0)


class Settings(BaseModel):
    """Base of every strategy's settings: frozen, no unknown keys; the values are in conf/strategy."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: str
