"""Puts trials in order, the best first: by one metric, or by fronts where there are several."""

import bisect
import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hpo.trials.fronts import Array, as_one_loss, best_first, front_numbers, is_on_front, scale_of, weighted
from hpo.trials.trial import Trial

# How many more trials than are asked for are kept at hand: this share of them, and so many at least.
_MORE, _LEAST_MORE = 0.25, 32


class Ranking:
    """Trials in order, while more are added: within the limits, then of least excess, failed and stopped ones last.

    With one metric those within the limits are in the order of their losses; with several by `best_first`. What is
    ranked are places, from 0 in the order of `add`.
    """

    def __init__(self) -> None:
        # By (excess, loss, number, place): all, or with several metrics those that are not within the limits.
        self._sorted: list[tuple[float, float, int, int]] = []
        self._fronts: Fronts | None = None
        self._num_added = 0

    def add(self, trial: Trial) -> None:
        """Add the trial of the next place."""
        place, self._num_added = self._num_added, self._num_added + 1
        if trial.other_losses and self._fronts is None:
            self._fronts = Fronts(len(trial.losses))
        if self._fronts is not None and trial.keeps_limits:
            self._fronts.add(place, trial)
        else:
            bisect.insort(self._sorted, (*sort_key(trial), place))

    def first(self, count: int | None, length: int, weights: Array | None = None) -> Iterator[int]:
        """Return the best `count` of the first `length` places (None = all), the best first; with weights by these."""
        of_fronts = () if self._fronts is None else self._fronts.first(count, length, weights)
        others = (place for _, _, _, place in self._sorted if place < length)
        return itertools.islice(itertools.chain(of_fronts, others), count)


def sort_key(trial: Trial) -> tuple[float, float, int]:
    """Return the place of a trial of one metric, or beyond the limits, among those trained as far: failures last."""
    return math.inf if math.isinf(trial.loss) else trial.excess, trial.loss, trial.number


class Fronts:
    """Trials of several metrics within the limits, ranked while more are added; of equal ones the earlier is first.

    At hand are those of the first fronts, to which alone a new trial is compared. A trial's front never comes earlier
    when trials are added, and depends only on those of earlier fronts. So while the fronts at hand hold enough, they
    are the first of all trials; where not, all are compared again.
    """

    def __init__(self, num_metrics: int) -> None:
        # By columns, which are read as wholes.
        self._losses: Array = np.empty((64, num_metrics), order="F")
        self._numbers: NDArray[np.int64] = np.empty(64, dtype=np.int64)
        self._places: list[int] = []
        # Rows of the fronts at hand, and the front of each; the last of these; and the number of rows that were read.
        self._at_hand: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._fronts: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._last = -1
        self._num_read = 0
        # Those of one front in order, by front, since the last was added.
        self._ordered: dict[int, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, place: int, trial: Trial) -> None:
        """Add a trial, by this place from now on; places rise."""
        row = len(self._places)
        if row == len(self._losses):
            self._losses = np.concatenate((self._losses, np.empty_like(self._losses)))
            self._numbers = np.concatenate((self._numbers, np.empty_like(self._numbers)))
        self._losses[row], self._numbers[row] = trial.losses, trial.number
        self._places.append(place)

    def first(self, count: int | None, length: int, weights: Array | None = None) -> Iterator[int]:
        """Return the best `count` of the places below `length` (None = all), the best first; with weights by these."""
        rows = bisect.bisect_left(self._places, length)
        losses = self._losses[:rows]
        if not rows:
            return
        if weights is not None:
            values = weighted(losses, weights)
            # To sort them all takes longer than the rest of a proposal.
            near = np.flatnonzero(values == values.min()) if count == 1 else np.arange(rows)
            order = near[np.lexsort((self._numbers[near], values[near]))][:count]
        elif count is None or rows < len(self._places):
            order = self._in_order(np.arange(rows), losses, count)
        else:
            order = self._in_order(self._fronts_at_hand(losses, count)[0], losses, count)
        yield from (self._places[row] for row in order)

    def first_of(self, wanted: NDArray[np.bool], count: int) -> int | None:
        """Return the best place of those that are wanted, if it is among the first `count` of all; else None.

        `wanted` has one entry per trial, in the order of `add`. Only the front of the answer is put in order.
        """
        losses = self._losses[: len(self)]
        if count <= 0 or not wanted.any():
            return None
        rows, fronts = self._fronts_at_hand(losses, count)
        front = int(fronts[wanted[rows]].min(initial=len(self)))
        num_before = int((fronts < front).sum())
        if num_before >= count:
            return None
        if front not in self._ordered:
            self._ordered[front] = self._in_order(rows[fronts == front], losses)
        order = self._ordered[front]
        place = int(wanted[order].argmax())
        return self._places[order[place]] if num_before + place < count else None

    def _in_order(self, rows: NDArray[np.int64], losses: Array, count: int | None = None) -> NDArray[np.int64]:
        """Return the `count` best of these rows, which are whole fronts."""
        rows = rows[self._numbers[rows].argsort()]
        return rows[best_first(losses[rows], count, scale_of(losses))]

    def _fronts_at_hand(self, losses: Array, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of the first fronts, at least `count` of them where there are so many, and their fronts."""
        if self._num_read < len(losses):
            near = np.concatenate((self._at_hand, np.arange(self._num_read, len(losses))))
            self._keep(near, front_numbers(losses[near]))
        if len(self._at_hand) < min(count, len(losses)):
            fronts = front_numbers(losses)
            sizes, more = np.bincount(fronts).cumsum(), max(_LEAST_MORE, int(_MORE * count))
            self._last = int(np.searchsorted(sizes, min(count + more, len(losses))))
            self._keep(np.arange(len(losses)), fronts)
        self._num_read = len(losses)
        return self._at_hand, self._fronts

    def _keep(self, rows: NDArray[np.int64], fronts: NDArray[np.int64]) -> None:
        is_at_hand = fronts <= self._last
        self._at_hand, self._fronts, self._ordered = rows[is_at_hand], fronts[is_at_hand], {}


def have_same_places(one: Trial, other: Trial) -> bool:
    """Return whether two trials report at the same places, as far as both went; so does one that reports nothing."""
    return all(mine == its for mine, its in zip(one.losses_at, other.losses_at, strict=False))


def at_same_place(trials: Sequence[Trial]) -> list[Trial]:
    """Return trials with losses that compare, where their trainings report at different places.

    That is the loss of each at the last place that all have reported; none of them where there is no such place. Where
    they report at the same places, those that went less far have ended by themselves, and count as they are.
    """
    furthest = max(trials, key=lambda trial: len(trial.losses_at), default=None)
    if furthest is None or all(have_same_places(trial, furthest) for trial in trials):
        return list(trials)
    shared = set.intersection(*(set(trial.losses_at) for trial in trials if trial.losses_at))
    place = max(shared, default=None)
    if place is None:
        return []
    return [replace(trial, loss=trial.losses_at[place]) if trial.losses_at else trial for trial in trials]


def at_largest_scale(trials: Sequence[Trial]) -> list[Trial]:
    """Return those at the largest scale among the trials; all of them where the study has no scales."""
    largest = max((t.scale for t in trials), default=0)
    return [t for t in trials if t.scale == largest]


def leaders(trials: Iterable[Trial], count: int) -> list[Trial]:
    """Return the `count` best complete trials, the best first; fewer where there are not so many.

    Those of the largest scale come first, and of these those trained furthest; of these those within the limits, by
    their losses or `best_first`, ties to the earlier trial; then those of the least excess.
    """
    complete = [trial for trial in trials if trial.state == "complete"]
    if not any(trial.other_losses for trial in complete):
        return heapq.nsmallest(count, complete, key=lambda trial: trial.rank)
    ordered: list[Trial] = []
    complete.sort(key=lambda trial: (trial.rank[:3], trial.number))
    for _, group in itertools.groupby(complete, key=lambda trial: trial.rank[:3]):
        equal = list(group)
        if len(ordered) < count:
            order = best_first(np.array([trial.losses for trial in equal]), count - len(ordered))
            ordered += [equal[int(row)] for row in order]
    return ordered


def front(trials: Iterable[Trial]) -> list[Trial]:
    """Return the complete trials that none dominates, of the largest scale, trained furthest and within the limits.

    In the order of their losses, the best of the leading metric first, equal ones as they are given. Where no trial
    keeps the limits there is none. With one metric they are the best and its equals.
    """
    trials = list(trials)
    # By point, how far it was trained when it exceeded a limit: a shorter training of it says nothing then.
    beyond: dict[str, int] = {}
    for trial in trials:
        if trial.excess > 0:
            beyond[trial.key] = max(trial.amount or 0, beyond.get(trial.key, 0))
    kept = [trial for trial in trials if trial.keeps_limits and (trial.amount or 0) >= beyond.get(trial.key, 0)]
    furthest = min((trial.rank[:2] for trial in kept), default=(0, 0))
    kept = [trial for trial in kept if trial.rank[:2] == furthest]
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

    One is if it is the first within the limits, or is of a larger scale, or was trained further, or as far and with
    less excess over the limits, or if none before it, of those as good in all of that, is as good in all metrics.
    """

    def __init__(self) -> None:
        self._best = (True, math.inf, math.inf, math.inf)
        self._front: list[tuple[float, ...]] = []

    def is_gain(self, trial: Trial) -> bool:
        """Take the next trial, and return whether it is better than all before it."""
        key, losses = (trial.excess > 0, *trial.rank[:3]), trial.losses
        if trial.state != "complete" or key > self._best:
            return False
        if key < self._best:
            self._best, self._front = key, []
        front = joined(self._front, losses)
        if front is None:
            return False
        self._front = front
        return True


def joined(front: Sequence[tuple[float, ...]], losses: tuple[float, ...]) -> list[tuple[float, ...]] | None:
    """Return the losses of a front with those of one trial more; None where one of it is as good in all metrics."""
    if any(all(map(float.__le__, one, losses)) for one in front):
        return None
    return [one for one in front if not all(map(float.__le__, losses, one))] + [losses]
