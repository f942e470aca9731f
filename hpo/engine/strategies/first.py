"""Adds first points to any strategy."""

from collections.abc import Sequence
from dataclasses import dataclass

from hpo.engine.strategies.strategy import Learns, Strategy
from hpo.trials.history import History
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Proposal, Trial


@dataclass(frozen=True)
class FirstPoints:
    """Puts the space's first points, less those of imported trials, before the strategy's first ones.

    `imported` has the keys of these trials' points, as far as they are known before the search.
    """

    strategy: Strategy
    imported: frozenset[str] = frozenset()

    @property
    def space(self) -> Space:
        """The space searched."""
        return self.strategy.space

    @property
    def announcement(self) -> str:
        """The strategy's own line, and how many given points are tried first."""
        count = sum(point_key(point) not in self.imported for point in self.space.first)
        return self.strategy.announcement + (f"; {count} given first" if count else "")

    @property
    def refuses_several(self) -> str | None:
        """As the strategy's own, where it has one: why it cannot search by several metrics."""
        reason: str | None = getattr(self.strategy, "refuses_several", None)
        return reason

    @property
    def learns(self) -> Learns:
        """As the strategy's own."""
        return self.strategy.learns

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point | Proposal]:
        """Return the strategy's next points; before its first ones, the first points."""
        proposed = self.strategy.propose(known, pending)
        if pending or any(trial.round >= 0 for trial in known[-1:]):
            return proposed
        first = {point_key(point): point for point in self.space.first if point_key(point) not in known.keys}
        others = [p for p in proposed if point_key(p.point if isinstance(p, Proposal) else p) not in first]
        # A strategy that trains by amounts starts these on its first rung too.
        amounts = [p.amount for p in proposed if isinstance(p, Proposal)]
        given = [Proposal(point, amounts[0]) if amounts else point for point in first.values()]
        return [*given, *others]
