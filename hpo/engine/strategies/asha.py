"""Asynchronous successive halving: the best of every rung are trained further as soon as they are known."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from hpo.engine.space.space import Space
from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.strategies.halving import HalvingSettings
from hpo.engine.strategies.rungs import Rungs
from hpo.engine.strategies.strategy import Learns, generator
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Proposal, Trial


class AshaSettings(HalvingSettings):
    """Settings of asynchronous successive halving; conf/strategy/asha.yaml says what each is."""

    rungs: Literal["fixed", "progressive"]


@dataclass(frozen=True)
class Asha:
    """Train points a little; continue those among the best 1 / eta of their rung; never wait for a rung to fill.

    Whenever a lane is free, the highest rung is searched for a trial among the best 1 / eta of those that have ended on
    it (failures last, ties to the earlier trial) that was not continued yet; it is continued, `eta` times as far. Where
    no rung has one, a random untried point starts on the first rung. A trial is one point on one rung, and a
    continuation costs what it adds. Ends when a finite space is exhausted and nobody can rise.

    With `rungs: progressive` the top rung rises only while the ranking is undecided: as soon as the points on the two
    highest rungs are in a different order there, up to noise, the next rung opens, up to `max_amount`.

    Source: Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", algorithm 2 (asha; promotions, one
    bracket, the one that halves most); Bohdal et al. 2023, "PASHA: Efficient HPO and NAS with Progressive Resource
    Allocation" (soft ranking). We differ: differences are compared on rungs, not after every epoch.

    Example: min_amount 1, max_amount 9, eta 3: as soon as three points have ended on 1, the best goes on to 3.
    """

    settings: AshaSettings
    space: Space
    seed: int
    learns: ClassVar[Learns] = "by_trial"

    @property
    def announcement(self) -> str:
        """One line on the rungs."""
        amounts = ", ".join(map(str, self.amounts))
        opened = ", opened while the ranking changes" if self.settings.rungs == "progressive" else ""
        return f"asha: the best 1 in {self.settings.eta} of a rung continue at once, by {amounts}{opened}"

    @property
    def amounts(self) -> list[int]:
        """The amounts of the rungs."""
        return self.settings.amounts(self.settings.num_halvings)

    def expected_at_end(self, configurations: int) -> int:
        """Return how many of so many configurations are trained to `max_amount` by halving, if all rungs fill."""
        return int(configurations // self.settings.eta ** (len(self.amounts) - 1))

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Proposal]:
        """Return the best trial to continue, or a new point for the first rung."""
        amounts = self.amounts
        rungs, continued = self._rungs.read(known), {trial.continues for trial in pending}
        top = len(amounts) - 1 if self.settings.rungs == "fixed" else self._rungs.highest_open
        for place in range(top - 1, -1, -1):
            trial = rungs[place].best_waiting(self.settings.eta, continued)
            if trial is not None:
                return [Proposal(trial.point, amounts[place + 1], trial.number, amounts[place])]
        rng = generator(self.seed, known, pending)
        points = draw_untried(self.space, rng, known.tried(pending), 1)
        return [Proposal(point, amounts[0]) for point in points]

    @cached_property
    def _rungs(self) -> Rungs:
        return Rungs(self.amounts)
