"""Puts trials in order, the best first: by one metric, or by fronts where there are several."""

import bisect
import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hpo.engine.trials.fronts import Array, as_one_loss, best_first, front_numbers, is_on_front, scale_of, weighted
from hpo.engine.trials.trial import Trial

# How many times as many trials as are asked for are kept at hand, and how many at least.
_AT_HAND, _LEAST_AT_HAND = 4, 32


class Ranking:
    """Trials in order, while more are added: within the limits, then of least excess, failed and stopped ones last.

    With one metric those within the limits are in the order of their losses; with several by `best_first`. What is
    ranked are places, from 0 in the order of `add`.
    """

    def __init__(self) -> None:
        # By (excess, loss, number, place): all, or with several metrics those that are not within the limits.
        self._sorted: list[tuple[float, float, int, int]] = []
        self._fronts: _Fronts | None = None
        self._num_added = 0

    def add(self, trial: Trial) -> None:
        """Add the trial of the next place."""
        place, self._num_added = self._num_added, self._num_added + 1
        if trial.other_losses and self._fronts is None:
            self._fronts = _Fronts(len(trial.losses))
        if self._fronts is not None and trial.keeps_limits:
            self._fronts.add(place, trial.losses)
        else:
            excess = math.inf if math.isinf(trial.loss) else trial.excess
            bisect.insort(self._sorted, (excess, trial.loss, trial.number, place))

    def first(self, count: int | None, length: int, weights: Array | None = None) -> Iterator[int]:
        """Return the best `count` of the first `length` places (None = all), the best first; with weights by these."""
        of_fronts = () if self._fronts is None else self._fronts.first(count, length, weights)
        others = (place for _, _, _, place in self._sorted if place < length)
        return itertools.islice(itertools.chain(of_fronts, others), count)


class _Fronts:
    """Trials of several metrics. At hand are those of the first fronts, to which alone a new trial is compared.

    A trial's front never comes earlier when trials are added, and depends only on those of earlier fronts. So while
    the fronts at hand hold enough, they are the first of all trials; where not, all are compared again.
    """

    def __init__(self, num_metrics: int) -> None:
        # By columns, which are read as wholes.
        self._losses: Array = np.empty((64, num_metrics), order="F")
        self._places: list[int] = []
        # Rows of the fronts at hand, the last of these fronts, and the number of rows that were read.
        self._at_hand: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._last = -1
        self._num_read = 0

    def add(self, place: int, losses: Sequence[float]) -> None:
        row = len(self._places)
        if row == len(self._losses):
            self._losses = np.concatenate((self._losses, np.empty_like(self._losses)))
        self._losses[row] = losses
        self._places.append(place)

    def first(self, count: int | None, length: int, weights: Array | None) -> Iterator[int]:
        rows = bisect.bisect_left(self._places, length)
        losses = self._losses[:rows]
        if not rows:
            return
        if weights is not None:
            values = weighted(losses, weights)
            order = np.array([values.argmin()]) if count == 1 else np.argsort(values, kind="stable")[:count]
        elif count is None or rows < len(self._places):
            order = best_first(losses, count)
        else:
            at_hand = self._fronts_at_hand(losses, count)
            order = at_hand[best_first(losses[at_hand], count, scale_of(losses))]
        yield from (self._places[row] for row in order)

    def _fronts_at_hand(self, losses: Array, count: int) -> NDArray[np.int64]:
        """Return the rows of the first fronts, at least `count` of them where there are so many."""
        near = np.concatenate((self._at_hand, np.arange(self._num_read, len(losses))))
        numbers = front_numbers(losses[near]) if len(near) else np.empty(0, dtype=np.int64)
        if (numbers <= self._last).sum() < min(count, len(losses)):
            near, numbers = np.arange(len(losses)), front_numbers(losses)
            sizes = np.bincount(numbers).cumsum()
            self._last = int(np.searchsorted(sizes, min(max(_LEAST_AT_HAND, _AT_HAND * count), len(losses))))
        self._at_hand, self._num_read = near[numbers <= self._last], len(losses)
        return self._at_hand


def leaders(trials: Iterable[Trial], count: int) -> list[Trial]:
    """Return the `count` best complete trials, the best first; fewer where there are not so many.

    Those trained furthest come first; of these those within the limits, by their losses or `best_first`, ties to the
    earlier trial; then those of the least excess.
    """
    complete = [trial for trial in trials if trial.state == "complete"]
    if not any(trial.other_losses for trial in complete):
        return heapq.nsmallest(count, complete, key=lambda trial: trial.rank)
    ordered: list[Trial] = []
    complete.sort(key=lambda trial: (trial.rank[:2], trial.number))
    for _, group in itertools.groupby(complete, key=lambda trial: trial.rank[:2]):
        equal = list(group)
        if len(ordered) < count:
            order = best_first(np.array([trial.losses for trial in equal]), count - len(ordered))
            ordered += [equal[int(row)] for row in order]
    return ordered


def front(trials: Iterable[Trial]) -> list[Trial]:
    """Return the complete trials that none dominates, of those trained furthest and within the limits.

    In the order of their losses, the best of the leading metric first, equal ones as they are given. Where no trial
    keeps the limits there is none. With one metric they are the best and its equals.
    """
    kept = [trial for trial in trials if trial.keeps_limits]
    furthest = max((trial.amount or 0 for trial in kept), default=0)
    kept = [trial for trial in kept if (trial.amount or 0) == furthest]
    if not any(trial.other_losses for trial in kept):
        least = min((trial.loss for trial in kept), default=math.inf)
        return [trial for trial in kept if trial.loss == least]
    members = itertools.compress(kept, is_on_front(np.array([trial.losses for trial in kept])))
    return sorted(members, key=lambda trial: trial.losses)


def one_loss(trials: Sequence[Trial]) -> Array:
    """Return a loss of each trial among these, lower is better: its own, or its place in the order of fronts.

    Infinite for those that are not complete.
    """
    if not any(trial.other_losses for trial in trials):
        return np.array([trial.loss for trial in trials])
    losses = np.full(len(trials), math.inf)
    complete = np.array([trial.state == "complete" for trial in trials])
    losses[complete] = as_one_loss(np.array([trial.losses for trial in trials if trial.state == "complete"]))
    return losses


class Gains:
    """Says of trials, one after another, whether they are better than all before them.

    One is if it was trained further, or as far and with less excess over the limits, or if none before it, of those
    as good in both, is as good in all metrics.
    """

    def __init__(self) -> None:
        self._best: tuple[float, float] = (math.inf, math.inf)
        self._front: list[tuple[float, ...]] = []

    def is_gain(self, trial: Trial) -> bool:
        """Take the next trial, and return whether it is better than all before it."""
        if trial.state != "complete" or trial.rank[:2] > self._best:
            return False
        losses = trial.losses
        if trial.rank[:2] < self._best:
            self._best, self._front = trial.rank[:2], []
        elif any(all(map(float.__le__, one, losses)) for one in self._front):
            return False
        self._front = [one for one in self._front if not all(map(float.__le__, losses, one))] + [losses]
        return True
