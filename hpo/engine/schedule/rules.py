"""What determines a search, besides its budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hpo.engine.schedule.stopping import Race, StopRule, Target
from hpo.engine.strategies.strategy import Strategy
from hpo.trials.space.space import Space
from hpo.trials.trial import Proposal, Trial
from hpo.workers.training.tasks import Task

Order = Literal["clock", "free"]
Counts = Literal["trials", "configurations"]


def is_counted(proposed: Proposal | Trial, counts: Counts) -> bool:
    """Return whether a budget of trials that counts these counts this one; it counts no retry."""
    return proposed.retry_of is None and (counts == "trials" or proposed.continues is None)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What determines a search, besides its budget.

    Attributes:
        tasks_of: returns the tasks of a trial, one per fold and repeat.
        cost_of: returns the cost of one unit of a trial's training, above 0.
        lanes: trainings that are planned to be under way at once; without influence on the free order.
        order: whether things count as known by the clock, or as soon as they are known (`free`).
        imported: finished trials of another study; the strategy learns from them, and they use no budget.
        script: what each trial learned in a search of free order that is run again, by its number.
        stop_without_gain: nothing more is proposed once so many trials in a row, as they became known, were not better
            than the best before them.
        target: no trial is opened once one that is known reaches it; None = there is none.
        space: in which every point must lie; None = not checked, since the strategy is known to keep to it.
        counts: what the budget of trials counts: all of them, or those that do not train an earlier one further.
        is_watched: whether callbacks are called when a trial ends, so that the order of ends has an influence.
        is_ask_and_tell: whether trials are asked for and told; results between two questions count at once.
    """

    strategy: Strategy
    tasks_of: Callable[[Trial], Sequence[Task]]
    cost_of: Callable[[Trial], float]
    lanes: int
    order: Order = "clock"
    race: Race | None = None
    imported: Sequence[Trial] = ()
    script: Sequence[Sequence[int]] = ()
    stop_without_gain: int | None = None
    stop_rule: StopRule | None = None
    target: Target | None = None
    space: Space | None = None
    counts: Counts = "trials"
    is_watched: bool = False
    is_ask_and_tell: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether trials, or their number, depend on the order in which trials end."""
        return self.strategy.learns == "by_trial" or self.judges or self.ends_by_scores or self.is_watched

    @property
    def ends_by_scores(self) -> bool:
        """Whether what trials score may end it."""
        return self.stop_without_gain is not None or self.target is not None

    @property
    def judges(self) -> bool:
        """Whether trials are stopped early, by what was known when they were proposed."""
        return self.race is not None or self.stop_rule is not None

    @property
    def waits(self) -> bool:
        """Whether things wait for the clock: not in free order, nor where the order of ends has no influence."""
        return self.order == "clock" and self.is_ordered
