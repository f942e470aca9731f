"""Adds the user's first points (`space.first`) to any strategy."""

from collections.abc import Sequence
from dataclasses import dataclass

from hpo.engine.strategies.strategy import Learns, Strategy
from hpo.formatting import format_count
from hpo.trials.history import History
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Proposal, Trial


@dataclass(frozen=True)
class FirstPoints:
    """Tries the points in `space.first` before the strategy's own points.

    A point that an imported trial has tried is not tried again. `imported` holds the keys of the imported trials'
    points. `announcement` counts only first points whose keys are not in `imported`.
    """

    strategy: Strategy
    imported: frozenset[str] = frozenset()

    @property
    def space(self) -> Space:
        """The space that is searched."""
        return self.strategy.space

    @property
    def announcement(self) -> str:
        """The strategy's announcement, followed by the number of first points."""
        count = sum(point_key(point) not in self.imported for point in self.space.first)
        first = f"; starts with {format_count(count, 'point*')} of space.first" if count else ""
        return f"{self.strategy.announcement}{first}"

    @property
    def refuses_several(self) -> str | None:
        """Why the wrapped strategy cannot search with several metrics or with a limit.

        None if the strategy can search with them, or does not define this attribute.
        """
        reason: str | None = getattr(self.strategy, "refuses_several", None)
        return reason

    @property
    def learns(self) -> Learns:
        """How often the strategy learns from ended trials; see `Strategy.learns`."""
        return self.strategy.learns

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point | Proposal]:
        """Return the strategy's next points.

        The first call of a search returns the untried points of `space.first` before the strategy's own points.
        """
        proposed = self.strategy.propose(known, pending)
        if pending or any(trial.round >= 0 for trial in known[-1:]):
            return proposed
        first = {point_key(point): point for point in self.space.first if point_key(point) not in known.keys}
        others = [p for p in proposed if point_key(p.point if isinstance(p, Proposal) else p) not in first]
        # In a strategy with rungs, these points start on the first rung, as the strategy's own points do.
        amounts = [p.amount for p in proposed if isinstance(p, Proposal)]
        return [*(Proposal(point, amounts[0]) if amounts else point for point in first.values()), *others]
