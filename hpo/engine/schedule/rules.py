"""The rules of a search: everything that determines its trials, except the budget."""

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
    """Return whether a budget in this unit counts the trial; it never counts a retry."""
    return proposed.retry_of is None and (counts == "trials" or proposed.continues is None)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules of a search: everything that determines its trials, except the budget.

    Attributes:
        tasks_of: returns the tasks of a trial, one per fold and repeat.
        cost_of: returns the cost of one unit of a trial's training, above 0.
        lanes: the number of trainings that run at once on the clock; without effect in free order.
        order: when a result counts as known: when the clock reaches it, or as soon as it arrives (`free`).
        imported: finished trials of another study; the strategy learns from them, and they use no budget.
        script: for the replay of a search in free order: the trials that each trial learned from, by its number.
        stop_without_gain: the search ends when so many known trials in a row are not better than the best before them.
        target: no trial is opened after a known trial has reached it; None = no target.
        space: checks every point; None = no check, because the toolkit's own strategies stay in the space.
        counts: what the budget of trials counts: all trials, or only those that do not continue an earlier one.
        is_watched: whether callbacks are called when a trial ends, so that the order of ends has an influence.
        is_ask_and_tell: whether the trainings run elsewhere; all results before an `ask` count as known.
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
        """Whether the trials, or their number, depend on the order in which trials end."""
        return self.strategy.learns == "by_trial" or self.judges or self.ends_by_scores or self.is_watched

    @property
    def ends_by_scores(self) -> bool:
        """Whether the scores of trials may end the search."""
        return self.stop_without_gain is not None or self.target is not None

    @property
    def judges(self) -> bool:
        """Whether a rule may stop trials early."""
        return self.race is not None or self.stop_rule is not None

    @property
    def waits(self) -> bool:
        """Whether the search waits for the clock: not in free order, nor where the order of ends has no influence."""
        return self.order == "clock" and self.is_ordered
