"""Which trials of a front, and near it, noise alone may set apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hpo.study.results.choosing import standard_error
from hpo.trials.fronts import Array, is_on_front
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial

# The 97.5th percentile of the normal distribution: intervals of 95 %.
_Z = 1.96


@dataclass(frozen=True)
class Overlap:
    """What the spread over folds and seeds leaves open of a front; all by the numbers of trials.

    Attributes:
        members: of each member of the front that has intervals, the other members whose intervals overlap with its own
            in every metric.
        near: dominated trials that may belong to the front, in the order in which they were given.
    """

    members: Mapping[int, Sequence[int]]
    near: Sequence[int]


def overlapping(front: Sequence[Trial], others: Iterable[Trial], goal: Goal) -> Overlap:
    """Return which trials of a front overlap, and which of the others may belong to it.

    A trial's interval of a metric is its mean over folds and seeds ± 1.96 standard errors; a trial of a single task
    has none, and is left out. With few tasks these intervals are narrower than Student's (with 3 less than half as
    wide), so what does not overlap may be chance, too.

    Args:
        front: its members, which keep the limits.
        others: trials of the same search. Those of the front, those that are not complete, exceed a limit, or were not
            trained as far as the front, are left out. Of the rest those may belong to the front whose best ends of the
            intervals are not dominated by the worst ends of any member's.
        goal: what the search is for.
    """
    members = [trial for trial in front if len(trial.values(goal.metric)) > 1]
    if not members:
        return Overlap({}, ())
    on_front, amount = {trial.number for trial in front}, members[0].amount
    rest = [
        trial
        for trial in others
        if trial.keeps_limits
        and trial.amount == amount
        and trial.number not in on_front
        and len(trial.values(goal.metric)) > 1
    ]
    low, high = _ends(members, goal)
    # Of two intervals that overlap, neither ends before the other begins.
    overlap = np.all((low[:, None] <= high[None]) & (low[None] <= high[:, None]), axis=2)
    np.fill_diagonal(overlap, False)
    with_whom = {
        one.number: [members[at].number for at in np.flatnonzero(overlap[row])] for row, one in enumerate(members)
    }
    near = [
        trial.number
        for trial, best in zip(rest, _ends(rest, goal)[0], strict=True)
        if is_on_front(np.vstack((high, best)))[-1]
    ]
    return Overlap(with_whom, near)


def _ends(trials: Sequence[Trial], goal: Goal) -> tuple[Array, Array]:
    """Return the lower and the upper ends of the intervals in losses, of shape (trials, metrics) each."""
    losses = np.array([trial.losses for trial in trials]).reshape(-1, len(goal.metrics))
    errors = np.array([[standard_error(trial, name) or 0.0 for name in goal.metrics] for trial in trials])
    width = _Z * errors.reshape(losses.shape)
    return losses - width, losses + width
