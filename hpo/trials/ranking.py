"""Ranks trials, the best first. One metric ranks them by loss; several metrics rank them by Pareto fronts."""

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

# `Fronts` keeps more candidates than were requested: more by this share of the request, and by at least this number.
_MORE, _LEAST_MORE = 0.25, 32


class Ranking:
    """A ranking to which trials are added one by one.

    First come the trials within the limits, then the trials that exceed a limit, then the failed and stopped trials.
    Trials within the limits are ordered by loss; with several metrics, by `best_first` or by weighted loss. Trials that
    exceed a limit are ordered by excess. The ranking identifies a trial by its index: 0 for the first trial added.
    """

    def __init__(self) -> None:
        # By (excess, loss, number, place): all trials, or with several metrics those that are not within the limits.
        self._sorted: list[tuple[float, float, int, int]] = []
        self._fronts: Fronts | None = None
        self._num_added = 0

    def add(self, trial: Trial) -> None:
        """Add a trial; its index is the number of trials added before."""
        place, self._num_added = self._num_added, self._num_added + 1
        if trial.other_losses and self._fronts is None:
            self._fronts = Fronts(len(trial.losses))
        if self._fronts is not None and trial.keeps_limits:
            self._fronts.add(place, trial)
        else:
            bisect.insort(self._sorted, (*sort_key(trial), place))

    def first(self, count: int | None, length: int, weights: Array | None = None) -> Iterator[int]:
        """Return the indices of the `count` best trials (None = all), the best first.

        The index of a trial is its position in the order of the calls of `add`, from 0. Only the `length` trials that
        were added first are considered. With several metrics, trials are ordered by weighted loss if `weights` are
        given, else by fronts.
        """
        of_fronts = () if self._fronts is None else self._fronts.first(count, length, weights)
        others = (place for _, _, _, place in self._sorted if place < length)
        return itertools.islice(itertools.chain(of_fronts, others), count)


def sort_key(trial: Trial) -> tuple[float, float, int]:
    """Return the sort key of a trial among trials with the same amount of training; the best trial has the lowest key.

    With several metrics, use this key only for trials that are not within the limits.
    """
    return math.inf if math.isinf(trial.loss) else trial.excess, trial.loss, trial.number


class Fronts:
    """Ranks, by several metrics, the trials that are within the limits; ties go to the earlier trial.

    The candidates are the trials of the first few fronts. New trials are compared only with the candidates. The other
    trials do not affect the candidates' fronts, because the front of a trial depends only on trials of earlier fronts.
    The other trials also never become candidates, because a new trial moves no other trial to an earlier front. If a
    caller requests more trials than there are candidates, all trials are compared again.
    """

    def __init__(self, num_metrics: int) -> None:
        # Column-major order, because columns are read as a whole. Rows are in the order of `add`.
        self._losses: Array = np.empty((64, num_metrics), order="F")
        self._numbers: NDArray[np.int64] = np.empty(64, dtype=np.int64)
        self._places: list[int] = []
        # The rows of the candidates, and the front of each candidate. Trials of later fronts than `_last` are no
        # candidates. `_num_read` rows have been compared.
        self._candidates: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._fronts: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._last = -1
        self._num_read = 0
        # The candidates of each front, the best first, by front; filled on demand, and cleared by each comparison.
        self._ordered: dict[int, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, place: int, trial: Trial) -> None:
        """Add a trial; `place` is its index in a `Ranking`, and must be larger than that of the previous trial."""
        row = len(self._places)
        if row == len(self._losses):
            self._losses = np.concatenate((self._losses, np.empty_like(self._losses)))
            self._numbers = np.concatenate((self._numbers, np.empty_like(self._numbers)))
        self._losses[row], self._numbers[row] = trial.losses, trial.number
        self._places.append(place)

    def first(self, count: int | None, length: int, weights: Array | None = None) -> Iterator[int]:
        """Yield the indices of the `count` best trials (None = all), the best first.

        Only trials with an index below `length` are considered. Trials are ordered by weighted loss if `weights` are
        given, else by fronts.
        """
        rows = bisect.bisect_left(self._places, length)
        losses = self._losses[:rows]
        if not rows:
            return
        if weights is not None:
            values = weighted(losses, weights)
            # If only the best is requested, do not sort all: that would take longer than the rest of a proposal.
            near = np.flatnonzero(values == values.min()) if count == 1 else np.arange(rows)
            order = near[np.lexsort((self._numbers[near], values[near]))][:count]
        elif count is None or rows < len(self._places):
            order = self._in_order(np.arange(rows), losses, count)
        else:
            order = self._in_order(self._compare(losses, count)[0], losses, count)
        yield from (self._places[row] for row in order)

    def first_of(self, wanted: NDArray[np.bool], count: int) -> int | None:
        """Return the index of the best wanted trial; None if no wanted trial is among the `count` best of all trials.

        `wanted` is a mask with one entry per trial, in the order in which the trials were added.
        """
        losses = self._losses[: len(self)]
        if count <= 0 or not wanted.any():
            return None
        rows, fronts = self._compare(losses, count)
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
        """Return the `count` best of the given rows (None = all), the best first.

        If `rows` has a trial of a front, `rows` must have all trials of this front.
        """
        rows = rows[self._numbers[rows].argsort()]
        return rows[best_first(losses[rows], count, scale_of(losses))]

    def _compare(self, losses: Array, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return two arrays: each candidate's row number in `losses`, and each candidate's front number.

        The candidates are all trials of the first few fronts. There are at least `count` candidates, unless the ranking
        has fewer trials; then all trials are candidates.
        """
        if self._num_read < len(losses):
            near = np.concatenate((self._candidates, np.arange(self._num_read, len(losses))))
            self._set_candidates(near, front_numbers(losses[near]))
        if len(self._candidates) < min(count, len(losses)):
            fronts = front_numbers(losses)
            sizes, more = np.bincount(fronts).cumsum(), max(_LEAST_MORE, int(_MORE * count))
            self._last = int(np.searchsorted(sizes, min(count + more, len(losses))))
            self._set_candidates(np.arange(len(losses)), fronts)
        self._num_read = len(losses)
        return self._candidates, self._fronts

    def _set_candidates(self, rows: NDArray[np.int64], fronts: NDArray[np.int64]) -> None:
        is_candidate = fronts <= self._last
        self._candidates, self._fronts, self._ordered = rows[is_candidate], fronts[is_candidate], {}


def have_same_places(one: Trial, other: Trial) -> bool:
    """Return whether the reports of two trials are at the same places.

    If one trial has only n reports and the other has more, compare the first n reports of both. Return True if one of
    the trials has no reports.
    """
    return all(mine == its for mine, its in zip(one.losses_at, other.losses_at, strict=False))


def at_same_place(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials, with losses that can be compared.

    If all trials have their reports at the same places, return the trials unchanged. Only the places that trials have
    in common count; see `have_same_places`. For example, one trial may have reports at epochs 1, 2 and 3, and another
    trial at epochs 1 and 2, because its training ended by itself.

    Otherwise, find the last place at which all trials with reports have a report. Each trial with reports gets its loss
    at this place. With several metrics, only the leading loss changes. Trials without reports stay unchanged. If the
    trials have no place in common, return an empty list.
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
    """Return the trials at the largest scale that any of the trials has; return all if the study has no scales."""
    largest = max((t.scale for t in trials), default=0)
    return [t for t in trials if t.scale == largest]


def leaders(trials: Iterable[Trial], count: int) -> list[Trial]:
    """Return the `count` best complete trials, or all if there are fewer, the best first.

    The first criterion is the scale (the largest first), then the amount of training (the largest first), then the
    excess over the limits. Then the loss decides, or `best_first` with several metrics. Ties go to the earlier trial.
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
    """Return the Pareto front: the candidates that no other candidate dominates.

    The candidates are chosen in steps:

    1. Take the complete trials that keep the limits.
    2. Leave out a trial if another trial with the same point and more training exceeds a limit.
    3. Keep only the trials at the largest scale that is left.
    4. Keep only the trials with the largest amount of training that is left.

    The front is sorted by the loss of the leading metric, then by the other losses. Equal trials stay in the order of
    `trials`. With one metric, the front is the best candidate and all candidates that equal it.
    """
    trials = list(trials)
    # For each point, the largest amount of training at which it exceeded a limit. Trials of the point with less
    # training are not eligible, even if they keep the limits.
    beyond: dict[str, int] = {}
    for trial in trials:
        if trial.excess > 0:
            beyond[trial.key] = max(trial.amount or 0, beyond.get(trial.key, 0))
    eligible = [trial for trial in trials if trial.keeps_limits and (trial.amount or 0) >= beyond.get(trial.key, 0)]
    furthest = min((trial.rank[:2] for trial in eligible), default=(0, 0))
    eligible = [trial for trial in eligible if trial.rank[:2] == furthest]
    if not any(trial.other_losses for trial in eligible):
        least = min((trial.loss for trial in eligible), default=math.inf)
        return [trial for trial in eligible if trial.loss == least]
    members = itertools.compress(eligible, is_on_front(np.array([trial.losses for trial in eligible])))
    return sorted(members, key=lambda trial: trial.losses)


def one_loss(trials: Sequence[Trial]) -> Array:
    """Return one loss per trial; with several metrics, it is the trial's position in the order of `as_one_loss`.

    The loss of a trial that is not complete is infinite.
    """
    if not any(trial.other_losses for trial in trials):
        return np.array([trial.loss for trial in trials])
    losses = np.full(len(trials), math.inf)
    complete = np.array([trial.state == "complete" for trial in trials])
    losses[complete] = as_one_loss(np.array([trial.losses for trial in trials if trial.state == "complete"]))
    return losses


class Gains:
    """Decides, trial by trial, whether a trial is better than all trials before it.

    These criteria decide, in this order: whether the trial keeps the limits; its scale (larger is better); its amount
    of training (larger is better); its excess over the limits (less is better). Among trials equal in all of these, a
    trial is better if it beats each earlier trial in at least one metric.
    """

    def __init__(self) -> None:
        self._best = (True, math.inf, math.inf, math.inf)
        self._front: list[tuple[float, ...]] = []

    def is_gain(self, trial: Trial) -> bool:
        """Add the next trial, and return whether it is better than all trials before it."""
        key, losses = (trial.excess > 0, *trial.rank[:3]), trial.losses
        if trial.state != "complete" or key > self._best:
            return False
        if key < self._best:
            self._best, self._front = key, []
        front = extend_front(self._front, losses)
        if front is None:
            return False
        self._front = front
        return True


def extend_front(front: Sequence[tuple[float, ...]], losses: tuple[float, ...]) -> list[tuple[float, ...]] | None:
    """Return the losses of a front's members after adding a trial.

    Return None if a member is at least as good as the trial in all metrics.
    """
    if any(all(map(float.__le__, one, losses)) for one in front):
        return None
    return [one for one in front if not all(map(float.__le__, losses, one))] + [losses]
