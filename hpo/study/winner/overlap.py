"""Finds trials, on a Pareto front or near it, whose order may come from noise alone."""

from collections.abc import Iterable, Sequence

import numpy as np

from hpo.study.results.choosing import standard_error
from hpo.trials.fronts import Array, is_on_front
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial

# The 97.5th percentile of the normal distribution: intervals of 95 %.
_Z = 1.96


def overlapping(front: Sequence[Trial], others: Iterable[Trial], goal: Goal) -> tuple[dict[int, list[int]], list[int]]:
    """Return the trials on a front whose intervals overlap, and the dominated trials that may belong to the front.

    The first value maps the number of each front trial to a list with the numbers of other front trials. Two front
    trials are in each other's lists if their intervals overlap in every metric. The second value lists the numbers of
    the dominated trials.

    A trial's interval in a metric is the trial's mean over folds and seeds ± 1.96 standard errors. A trial with a
    single task has no interval and is skipped. With few tasks, these intervals are narrower than Student's intervals:
    less than half as wide with 3 tasks. So trials whose intervals do not overlap may still differ only by chance.

    Compare the best ends of a dominated trial's intervals with the worst ends of the front's intervals. If no front
    trial dominates the trial in this comparison, the trial may belong to the front.

    Args:
        others: trials of the same search. Trials on the front, incomplete trials, trials that exceed a limit, and
            trials with another amount than the front's trials are skipped.
    """
    members = [trial for trial in front if len(trial.values(goal.metric)) > 1]
    if not members:
        return {}, []
    on_front, amount = {trial.number for trial in front}, members[0].amount
    rest = [
        trial
        for trial in others
        if trial.keeps_limits
        and trial.amount == amount
        and trial.number not in on_front
        and len(trial.values(goal.metric)) > 1
    ]
    low, high = _interval_ends(members, goal)
    # Two intervals overlap if neither ends before the other begins.
    overlap = np.all((low[:, None] <= high[None]) & (low[None] <= high[:, None]), axis=2)
    np.fill_diagonal(overlap, False)
    partners = {
        one.number: [members[at].number for at in np.flatnonzero(overlap[row])] for row, one in enumerate(members)
    }
    near = [
        trial.number
        for trial, best in zip(rest, _interval_ends(rest, goal)[0], strict=True)
        if is_on_front(np.vstack((high, best)))[-1]
    ]
    return partners, near


def _interval_ends(trials: Sequence[Trial], goal: Goal) -> tuple[Array, Array]:
    """Return two arrays of shape (trials, metrics): the lower ends and the upper ends of the losses' intervals."""
    losses = np.array([trial.losses for trial in trials]).reshape(-1, len(goal.metrics))
    errors = np.array([[standard_error(trial, name) or 0.0 for name in goal.metrics] for trial in trials])
    width = _Z * errors.reshape(losses.shape)
    return losses - width, losses + width
