"""The interface of strategies: a pure function from the known and the pending trials to the next points."""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import numpy as np

from hpo.config.sections import Section
from hpo.trials.history import History
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Proposal, Trial

# The largest value of every count in a strategy's settings; more points at once would not fit into memory.
MOST = 1_000_000

Learns = Literal["never", "by_round", "by_trial"]


class Strategy(Protocol):
    """Proposes points, given the trials known so far on the study's clock.

    A proposal depends only on the settings, the space, the seed, and the two arguments of `propose`. Random numbers
    depend only on the seed and on the number of known and pending trials (see `generator`), so a resumed study gets the
    same points again.

    A resumed study checks that its strategy has not changed. Each strategy of the toolkit has an integer `REVISION`,
    which its studies record. Every change that gives other points for the same settings, history and seed increases
    this number. Other strategies are compared by the content of their files.
    """

    @property
    def space(self) -> Space:
        """The space that is searched."""
        ...

    @property
    def announcement(self) -> str:
        """One line of text about the search, which the user reads before the search starts."""
        ...

    @property
    def learns(self) -> Learns:
        """When the strategy learns from ended trials.

        `never`: it ignores results. `by_round`: it proposes a round when all trials of the previous round have ended.
        `by_trial`: it learns from each trial as soon as the trial has ended. Only with `by_trial` can the proposals
        depend on the order in which trials end.
        """
        ...

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point | Proposal]:
        """Return the next points.

        An empty list means: call again when more trials are known. If no trial is pending, an empty list ends the
        search. A strategy that trains points only partly returns `Proposal` objects. It may propose the same point
        again, to continue the point's training.

        Args:
            known: the trials that have ended, failures included, in the order of their ends. Trials imported from other
                studies come first, with numbers below 0.
            pending: the proposed trials that are not in `known` yet. Their outcomes, if there are any, are removed.
        """
        ...


def generator(seed: int, known: History, pending: Sequence[Trial]) -> np.random.Generator:
    """Return the random generator for a proposal, seeded with the seed and the number of known and pending trials.

    Imported trials are known trials, so they count, too.
    """
    return np.random.default_rng((seed, len(known) + len(pending)))


def next_round(trials: Iterable[Trial]) -> int:
    """Return the number of the next round, given all trials so far; rounds are numbered from 0."""
    return max((trial.round + 1 for trial in trials), default=0)


class Settings(Section):
    """Base class of strategy settings: immutable, and without unknown keys. Default values are in conf/strategy."""

    name: str
