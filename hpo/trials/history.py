"""The history that a strategy sees: every trial that has ended, ranked, and the points tried."""

import bisect
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hpo.trials.fronts import Array, draw_weights, weighted
from hpo.trials.ranking import Gains, Ranking, front, leaders
from hpo.trials.space.space import point_key
from hpo.trials.trial import Trial

Weights = Array | None
"""Weights of the metrics, by which several losses are one; None with one metric."""


class History(Sequence[Trial]):
    """Trials that have ended, failures included, in the order in which they became known. Immutable.

    Histories that grew from one (`extended`) share a log, so that the cost of a proposal does not grow with the study;
    `since` returns what was added.
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._log = _Log()
        self._log.append(trials)
        self._length = len(self._log.trials)

    def extended(self, trials: Iterable[Trial]) -> "History":
        """Return the history with these trials at its end."""
        longer = History()
        # Only the end of a log can grow: a history that is not its log's end starts its own log.
        longer._log = self._log if self._length == len(self._log.trials) else History(self)._log
        longer._log.append(trials)
        longer._length = len(longer._log.trials)
        return longer

    def first(self, count: int) -> "History":
        """Return the history of the first `count` trials, as it was then."""
        shorter = History()
        shorter._log, shorter._length = self._log, count
        return shorter

    def since(self, earlier: "History") -> Sequence[Trial] | None:
        """Return the trials that `extended` has added to an earlier history; None where this did not grow from it."""
        if self._log is not earlier._log or self._length < earlier._length:
            return None
        return self._log.trials[earlier._length : self._length]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(map(self._log.trials.__getitem__, range(*index.indices(self._length))))
        return self._log.trials[range(self._length)[index]]

    def __iter__(self) -> Iterator[Trial]:
        return itertools.islice(self._log.trials, self._length)

    def __contains__(self, point: object) -> bool:
        return isinstance(point, Mapping) and point_key(point) in self.keys

    @property
    def keys(self) -> Collection[str]:
        """The keys of all points tried; membership takes constant time."""
        return _Keys(self._log.first_of_key, self._length)

    def tried(self, pending: Sequence[Trial]) -> Collection[str]:
        """Return the keys of all points tried, and of those being tried."""
        return _Keys(self._log.first_of_key, self._length, frozenset(trial.key for trial in pending))

    def ranked(self, count: int | None = None, weights: Weights = None) -> list[Trial]:
        """Return the `count` best trials (None = all) from best to worst: failures last, ties to the earlier trial.

        With several metrics by fronts, or by these weights; those that exceed a limit come after those that keep them:
        see `Ranking`.
        """
        return [self._log.trials[place] for place in self._log.ranking.first(count, self._length, weights)]

    def draw_weights(self, rng: np.random.Generator) -> Weights:
        """Return weights of the metrics; with one metric None, and nothing is drawn.

        They come from a stream of their own, so that a metric in which all trials are equal changes nothing.

        For strategies that follow one leader: another one each time, so that they come to all of the front.
        """
        return draw_weights(rng.spawn(1)[0], self.num_metrics) if self.num_metrics > 1 else None

    def losses(self, weights: Weights) -> list[float]:
        """Return one loss per trial: its own, or by these weights; infinite where failed, or beyond a limit."""
        if weights is None:
            return [trial.loss if trial.excess == 0 else math.inf for trial in self]
        kept = [trial.keeps_limits for trial in self]
        losses = np.full(len(self), math.inf)
        if any(kept):
            losses[kept] = weighted(np.array([trial.losses for trial in self if trial.keeps_limits]), weights)
        return losses.tolist()

    def leaders(self, count: int) -> list[Trial]:
        """Return the `count` best complete trials, the best first; fewer where there are not so many."""
        return leaders(self, count)

    @property
    def front(self) -> list[Trial]:
        """The complete trials within the limits that none dominates; with one metric the best and its equals."""
        return front(self)

    def best(self) -> Trial | None:
        """Return the first of the leaders, or None; which one of a front is chosen is the verdict's."""
        return next(iter(self.leaders(1)), None)

    @property
    def num_metrics(self) -> int:
        """The number of metrics that its complete trials have; 1 while none is complete."""
        # The first complete trial is better than none.
        first = self._log.gains[:1]
        return len(self._log.trials[first[0]].losses) if first and first[0] < self._length else 1

    @property
    def num_without_gain(self) -> int:
        """The number of trials that became known after the last that was better than all before it."""
        count = bisect.bisect_left(self._log.gains, self._length)
        return self._length - 1 - (self._log.gains[count - 1] if count else -1)


class Reader(ABC):
    """Reads histories trial by trial: of one that grew from the last, only what was added."""

    def __init__(self) -> None:
        self._known = History()
        self._forget()

    def read(self, known: History) -> None:
        """Read what was added."""
        added = known.since(self._known)
        if added is None:
            self._forget()
        # Until all of it is read: after an exception everything is read again.
        self._known = History()
        for trial in known if added is None else added:
            self._add(trial)
        self._known = known

    @abstractmethod
    def _forget(self) -> None:
        """Forget all that was read."""

    @abstractmethod
    def _add(self, trial: Trial) -> None:
        """Read one more trial."""


class _Log:
    """Trials in order, their ranking, and the place of each point's first trial.

    `gains` are the places of the complete trials that were better than all before.
    """

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.ranking = Ranking()
        self.first_of_key: dict[str, int] = {}
        self.gains: list[int] = []
        self._gains = Gains()

    def append(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            place = len(self.trials)
            self.trials.append(trial)
            self.first_of_key.setdefault(trial.key, place)
            self.ranking.add(trial)
            if self._gains.is_gain(trial):
                self.gains.append(place)


class _Keys(Collection[str]):
    """The keys of the first `length` trials of a log, and some more."""

    def __init__(self, first_of_key: Mapping[str, int], length: int, more: frozenset[str] = frozenset()) -> None:
        self._first_of_key = first_of_key
        self._length = length
        self._more = more

    def __contains__(self, key: object) -> bool:
        if key in self._more:
            return True
        place = self._first_of_key.get(key) if isinstance(key, str) else None
        return place is not None and place < self._length

    def __iter__(self) -> Iterator[str]:
        yield from (key for key, place in self._first_of_key.items() if place < self._length)
        yield from (key for key in self._more if self._first_of_key.get(key, self._length) >= self._length)

    def __len__(self) -> int:
        return sum(1 for _ in self)
