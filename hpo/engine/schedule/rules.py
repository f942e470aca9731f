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
    """Return whether a budget counts this trial; `counts` is the unit of the budget. Retries never count."""
    return proposed.retry_of is None and (counts == "trials" or proposed.continues is None)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules of a search: everything that determines its trials, except the budget.

    A trial is *known* from the moment at which the strategy gets its result.

    Attributes:
        strategy: proposes the points.
        tasks_of: returns the tasks of a trial, one per fold and repeat.
        cost_of: returns the cost of one unit of a trial's training, above 0.
        lanes: the number of trainings that run at once on the clock. The number has no effect if the search does not
            wait for the clock; see `waits`.
        order: `clock` = the strategy gets a trial's result when the clock reaches the trial's end; `free` = the
            strategy gets the result as soon as it arrives.
        race: compares the first folds of a trial with the same folds of the best trials, and stops the trial if it is
            clearly worse; None = no race.
        imported: finished trials of other studies; the strategy learns from them, and they use no budget.
        script: for the replay of a search with the order `free`: which trials became known at which time. Element n
            holds the numbers of the trials that became known just before trial n was opened.
        stop_without_gain: end the search when this many known trials in a row are not better than the best trial before
            them; None = never.
        stop_rule: the median rule, which stops trainings early; None = no rule.
        target: no trial is opened after a known trial has reached the target; None = no target.
        space: the space in which every proposed point must be. None = do not check, because the toolkit's own
            strategies never leave the space.
        counts: what the budget counts: `trials` = all trials; `configurations` = only trials that do not continue an
            earlier trial. Retries never count.
        is_watched: whether callbacks are called when a trial ends. If so, the order in which trials end can influence
            the search.
        is_ask_and_tell: whether the trainings run outside of the toolkit, with ask-and-tell. At each `ask`,
            every trial that has its result from an earlier `tell` is known.
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
        """Whether the order in which trials end can influence the trials or their number."""
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
        """Whether the search waits for the clock. The search waits if `order` is `clock` and `is_ordered` is true."""
        return self.order == "clock" and self.is_ordered
