"""The strategy of a study that was searched in rounds, before there was a clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hpo.engine.space.space import Point, Space
from hpo.engine.strategies.strategy import Learns
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Trial


@dataclass(frozen=True)
class PastSearch:
    """Proposes nothing: the search of such a study cannot be continued, only reported, tested and reproduced."""

    space: Space

    @property
    def announcement(self) -> str:
        """One line on why nothing is proposed."""
        return "searched in rounds, by an earlier version"

    learns: ClassVar[Learns] = "never"

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point]:  # noqa: ARG002 -- the protocol's
        """Return nothing."""
        return []
