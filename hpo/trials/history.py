"""The history that a strategy gets: the trials that have ended, their ranking, and the points that were tried."""

import bisect
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hpo.trials.fronts import Array, weighted
from hpo.trials.ranking import Gains, Ranking, front, leaders
from hpo.trials.space.space import point_key
from hpo.trials.trial import Trial

Weights = Array | None
"""The weights of the metrics, which turn several losses into one; None if there is only one metric."""


class History(Sequence[Trial]):
    """An immutable sequence of the ended trials, including failed ones, in the order in which the trials became known.

    A history and its extensions (`extended`) share one log, so that the cost of a proposal does not grow with the
    study. `since` returns the trials that an extension has added. `point in history` tests whether a point was tried.
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._log = _Log()
        self._log.append(trials)
        self._length = len(self._log.trials)

    def extended(self, trials: Iterable[Trial]) -> "History":
        """Return a new history with these trials appended."""
        longer = History()
        # A log can only be appended to. If it has grown beyond this history, the new history needs a new log.
        longer._log = self._log if self._length == len(self._log.trials) else History(self)._log
        longer._log.append(trials)
        longer._length = len(longer._log.trials)
        return longer

    def first(self, count: int) -> "History":
        """Return a history of only the first `count` trials."""
        shorter = History()
        shorter._log, shorter._length = self._log, count
        return shorter

    def since(self, earlier: "History") -> Sequence[Trial] | None:
        """Return the trials added since an earlier history.

        Return None if this history does not extend the earlier history.
        """
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
        """The keys of all points that were tried; a membership test takes constant time."""
        return _Keys(self._log.first_of_key, self._length)

    def tried(self, pending: Sequence[Trial]) -> Collection[str]:
        """Return the keys of all points that were tried or are pending."""
        return _Keys(self._log.first_of_key, self._length, frozenset(trial.key for trial in pending))

    def ranked(self, count: int | None = None, weights: Weights = None) -> list[Trial]:
        """Return the `count` best trials (None = all), the best first; ties go to the earlier trial.

        With several metrics, the order is by weighted loss if `weights` are given, else by fronts. Trials that exceed a
        limit come later, and failed and stopped trials come last; see `Ranking`.
        """
        return [self._log.trials[place] for place in self._log.ranking.first(count, self._length, weights)]

    def draw_weights(self, rng: np.random.Generator) -> Weights:
        """Return random weights of the metrics, uniformly distributed with sum 1; None if there is only one metric.

        A strategy that follows the trial with the best weighted loss covers the whole front if it draws new weights
        each time. The weights come from a new generator that `rng` spawns, so the random numbers of `rng` itself stay
        the same. The published algorithm ParEGO draws its weights from a grid instead.
        """
        return rng.spawn(1)[0].dirichlet(np.ones(self.num_metrics)) if self.num_metrics > 1 else None

    def losses(self, weights: Weights) -> list[float]:
        """Return one loss per trial, in the order of the history.

        If `weights` are given, the function `weighted` combines the trial's losses in all metrics into one loss.
        Otherwise, the loss is the trial's loss in the leading metric. The loss is infinite if the trial failed, was
        stopped or exceeds a limit.
        """
        if weights is None:
            return [trial.loss if trial.excess == 0 else math.inf for trial in self]
        is_feasible = [trial.keeps_limits for trial in self]
        losses = np.full(len(self), math.inf)
        if any(is_feasible):
            losses[is_feasible] = weighted(np.array([trial.losses for trial in self if trial.keeps_limits]), weights)
        return losses.tolist()

    def leaders(self, count: int) -> list[Trial]:
        """Return the `count` best complete trials, or all if there are fewer, the best first."""
        return leaders(self, count)

    @property
    def front(self) -> list[Trial]:
        """The Pareto front: the trials that are complete, within the limits, and not dominated by another such trial.

        See `hpo.trials.ranking.front` for the full definition.
        """
        return front(self)

    def best(self) -> Trial | None:
        """Return the best complete trial (the first trial of `leaders`); None if no trial is complete.

        With several metrics, this trial need not be the winner: `choose_best` chooses the winner from the front.
        """
        return next(iter(self.leaders(1)), None)

    @property
    def num_metrics(self) -> int:
        """The number of metrics of the complete trials; 1 while no trial is complete."""
        # The first complete trial is always a gain.
        first = self._log.gains[:1]
        return len(self._log.trials[first[0]].losses) if first and first[0] < self._length else 1

    @property
    def num_without_gain(self) -> int:
        """The number of trials since the last gain. If there is no gain, this is the number of all trials.

        A gain is a complete trial that is better than all trials before it.
        """
        count = bisect.bisect_left(self._log.gains, self._length)
        return self._length - 1 - (self._log.gains[count - 1] if count else -1)


class Reader(ABC):
    """Base class for caches that read a history trial by trial.

    If a history extends the history that was read last, only the added trials are read.
    """

    def __init__(self) -> None:
        self._known = History()
        self._forget()

    def read(self, known: History) -> None:
        """Read the trials that are new since the previous call.

        If the history does not extend the history of the previous call, read all trials of the history.
        """
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
    """A list of trials with their ranking, and the index of the first trial of each point.

    `gains` holds the indices of the trials that were better than all trials before them.
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
    """The keys of a history's first `length` trials, and the keys in `more`; a trial's key identifies its point."""

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
