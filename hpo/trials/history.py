"""The history of a search for its strategy: the trials that have ended, their ranking, and the points tried."""

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
"""Weights of the metrics, which turn several losses into one; None with one metric."""


class History(Sequence[Trial]):
    """The trials that have ended, failures included, in the order in which they became known; immutable.

    A history and its extensions (`extended`) share a log, so that the cost of a proposal does not grow with the study.
    `since` returns the trials that an extension has added.
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._log = _Log()
        self._log.append(trials)
        self._length = len(self._log.trials)

    def extended(self, trials: Iterable[Trial]) -> "History":
        """Return the history with these trials at its end."""
        longer = History()
        # A log only grows at its end, so a history of an earlier part starts a log of its own.
        longer._log = self._log if self._length == len(self._log.trials) else History(self)._log
        longer._log.append(trials)
        longer._length = len(longer._log.trials)
        return longer

    def first(self, count: int) -> "History":
        """Return the history of the first `count` trials."""
        shorter = History()
        shorter._log, shorter._length = self._log, count
        return shorter

    def since(self, earlier: "History") -> Sequence[Trial] | None:
        """Return the trials added since an earlier history; None if this is not an extension of it."""
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
        """Return the keys of all points tried, and of the pending ones."""
        return _Keys(self._log.first_of_key, self._length, frozenset(trial.key for trial in pending))

    def ranked(self, count: int | None = None, weights: Weights = None) -> list[Trial]:
        """Return the `count` best trials (None = all), the best first; failures are last, ties go to the earlier trial.

        With several metrics the order is by fronts, or by the weights. Trials that exceed a limit come after the
        others; see `Ranking`.
        """
        return [self._log.trials[place] for place in self._log.ranking.first(count, self._length, weights)]

    def draw_weights(self, rng: np.random.Generator) -> Weights:
        """Return random weights of the metrics; None with one metric, without using the generator.

        A strategy that follows one leader gets another leader each time, so that it covers the whole front. The weights
        come from a random stream of their own, so that an additional metric changes no other random number.
        """
        return draw_weights(rng.spawn(1)[0], self.num_metrics) if self.num_metrics > 1 else None

    def losses(self, weights: Weights) -> list[float]:
        """Return one loss per trial, with several metrics by the weights; infinite if it failed or exceeds a limit."""
        if weights is None:
            return [trial.loss if trial.excess == 0 else math.inf for trial in self]
        is_feasible = [trial.keeps_limits for trial in self]
        losses = np.full(len(self), math.inf)
        if any(is_feasible):
            losses[is_feasible] = weighted(np.array([trial.losses for trial in self if trial.keeps_limits]), weights)
        return losses.tolist()

    def leaders(self, count: int) -> list[Trial]:
        """Return the `count` best complete trials, or all of them, the best first."""
        return leaders(self, count)

    @property
    def front(self) -> list[Trial]:
        """The Pareto front: the complete trials within the limits that no other dominates."""
        return front(self)

    def best(self) -> Trial | None:
        """Return the first of the leaders; None without a complete trial. The winner of a front is chosen elsewhere."""
        return next(iter(self.leaders(1)), None)

    @property
    def num_metrics(self) -> int:
        """The number of metrics of the complete trials; 1 while none is complete."""
        # The first complete trial is always a gain.
        first = self._log.gains[:1]
        return len(self._log.trials[first[0]].losses) if first and first[0] < self._length else 1

    @property
    def num_without_gain(self) -> int:
        """The number of trials after the last one that was better than all before it."""
        count = bisect.bisect_left(self._log.gains, self._length)
        return self._length - 1 - (self._log.gains[count - 1] if count else -1)


class Reader(ABC):
    """Reads histories trial by trial; from an extension of the last history, it reads only the added trials."""

    def __init__(self) -> None:
        self._known = History()
        self._forget()

    def read(self, known: History) -> None:
        """Read the trials of a history that are new."""
        added = known.since(self._known)
        if added is None:
            self._forget()
        # Empty until all trials are read, so that an exception causes a full retry.
        self._known = History()
        for trial in known if added is None else added:
            self._add(trial)
        self._known = known

    @abstractmethod
    def _forget(self) -> None:
        """Forget all trials."""

    @abstractmethod
    def _add(self, trial: Trial) -> None:
        """Add the next trial."""


class _Log:
    """Trials in order, their ranking, and the place of the first trial of each point.

    `gains` holds the places of the trials that were better than all before them.
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
    """The keys of the first `length` trials of a log, and the keys in `more`."""

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
