"""The interface of strategies: one pure function from what is known and pending to the next points."""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict

from hpo.trials.history import History
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Proposal, Trial

# Bound of every count in a strategy's settings: more points at once would not fit into memory.
MOST = 1_000_000

Learns = Literal["never", "by_round", "by_trial"]


class Strategy(Protocol):
    """Proposes points, from what is known at its place on the study's clock.

    The answer depends only on the settings, the space, the seed, and the two arguments of `propose`. Randomness is
    `numpy.random.default_rng((seed, number of trials proposed))`, so a resumed study gets the same points again.

    A strategy of the toolkit has an integer `REVISION`, which its studies note: it rises where the same settings,
    history and seed would give other points. Any other strategy is compared by the content of its files.
    """

    @property
    def space(self) -> Space:
        """The space searched."""
        ...

    @property
    def announcement(self) -> str:
        """One line for the user about the search, shown before it starts."""
        ...

    @property
    def learns(self) -> Learns:
        """When it learns from what has ended: `never`, `by_round` (none is proposed while any is pending), `by_trial`.

        Only `by_trial` can depend on the order in which trials end.
        """
        ...

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point | Proposal]:
        """Return one or more points, all new; none = ask again when more is known, or, with nothing pending, the end.

        `known` are the trials that have ended, failures included, in the order of their ends; before them those
        imported from other studies, with numbers below 0. `pending` are those proposed and not ended, without their
        outcomes. A strategy that trains by amounts returns proposals: the same point may then be proposed again, to be
        trained further.
        """
        ...


def generator(seed: int, known: History, pending: Sequence[Trial]) -> np.random.Generator:
    """Return the random numbers of a proposal, which depend on the seed and the number of trials proposed."""
    return np.random.default_rng((seed, len(known) + len(pending)))


def next_round(trials: Iterable[Trial]) -> int:
    """Return the number of the proposal that follows those of these trials, from 0."""
    return max((trial.round + 1 for trial in trials), default=0)


class Settings(BaseModel):
    """Base of every strategy's settings: frozen, no unknown keys; the values are in conf/strategy."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: str
