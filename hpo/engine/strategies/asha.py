"""Asynchronous successive halving: it continues the best trials of each rung as soon as they are known."""

import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hpo.engine.strategies.drawing.new_points import NewPoints
from hpo.engine.strategies.halving import HalvingSettings
from hpo.engine.strategies.strategy import Learns, generator
from hpo.trials.history import History, Reader
from hpo.trials.ranking import Fronts, at_same_place, have_same_places, sort_key
from hpo.trials.space.space import Space
from hpo.trials.trial import Proposal, Trial

# The noise level is this quantile of the loss differences of criss-crossing pairs, as in Bohdal et al. 2023.
_NOISE = 0.9


class AshaSettings(HalvingSettings):
    """Settings of asynchronous successive halving, described in conf/strategy/asha.yaml."""

    rungs: Literal["fixed", "progressive"]


class Rung:
    """A ranking of the trials that have ended on one rung.

    `losses` maps the key of each point to the loss of the point's complete trial. Only a search with one metric uses
    `losses`. If the trainings report at different places, the rung compares losses at the last place that all complete
    trials have reported.
    """

    def __init__(self) -> None:
        self._trials: dict[int, Trial] = {}
        self._continued = set[int]()
        self._furthest: Trial | None = None
        self._are_mixed = False
        self._forget()

    def _forget(self) -> None:
        self.losses: dict[str, float] = {}
        self._compared: dict[int, Trial] = {}
        # Sort keys in ascending order. `_ranked` holds all trials, or with several metrics only the trials that are not
        # in `_fronts`. `_waiting` holds those in `_ranked` that are complete and not continued yet.
        self._ranked: list[tuple[float, float, int]] = []
        self._waiting: list[tuple[float, float, int]] = []
        # With several metrics, the trials within the limits. Each has a place, which counts these trials in the order
        # of `add`. `_numbers` and `_waits` hold the number of the trial at each place, and whether it is not continued
        # yet; `_places` maps the numbers to the places.
        self._fronts: Fronts | None = None
        self._numbers: list[int] = []
        self._places: dict[int, int] = {}
        self._waits = bytearray()

    def __len__(self) -> int:
        return len(self._trials)

    def add(self, trial: Trial) -> bool:
        """Add a trial that has ended on this rung; return whether the losses of other trials may have changed."""
        self._trials[trial.number] = trial
        if self._furthest is not None and not have_same_places(trial, self._furthest):
            self._are_mixed = True
        if self._furthest is None or len(trial.losses_at) > len(self._furthest.losses_at):
            self._furthest = trial
        if not self._are_mixed:
            self._rank(trial)
            return False
        self._forget()
        ended = [trial for trial in self._trials.values() if trial.state == "complete"]
        compared = {trial.number: trial for trial in at_same_place(ended)}
        for number, each in self._trials.items():
            if each.state != "complete" or number in compared:
                self._rank(compared.get(number, each))
        for number in self._continued & compared.keys():
            self._wait_no_longer(number)
        return True

    def _rank(self, trial: Trial) -> None:
        self._compared[trial.number] = trial
        if trial.other_losses and trial.keeps_limits:
            place = self._places[trial.number] = len(self._numbers)
            if self._fronts is None:
                self._fronts = Fronts(len(trial.losses))
            self._fronts.add(place, trial)
            self._numbers.append(trial.number)
            self._waits.append(True)
            return
        bisect.insort(self._ranked, sort_key(trial))
        if trial.state == "complete":
            bisect.insort(self._waiting, sort_key(trial))
            self.losses[trial.key] = trial.loss

    def mark_continued(self, number: int) -> None:
        """Mark a waiting trial as continued."""
        self._continued.add(number)
        if number in self._compared:
            self._wait_no_longer(number)

    def _wait_no_longer(self, number: int) -> None:
        if number in self._places:
            self._waits[self._places[number]] = False
        else:
            del self._waiting[bisect.bisect_left(self._waiting, sort_key(self._compared[number]))]

    def best_waiting(self, eta: int, pending: Collection[int | None]) -> Trial | None:
        """Return the best waiting trial if it is among the best 1 / `eta` of the rung, else None.

        A trial waits if it is complete, has not been continued, and is not in `pending`. `pending` holds the numbers of
        the trials whose continuation is pending.
        """
        count = len(self) // eta
        if self._fronts is not None:
            waits = np.array(self._waits, dtype=np.bool)
            waits[[self._places[number] for number in pending if number in self._places]] = False
            place = self._fronts.first_of(waits, count)
            if place is not None:
                return self._trials[self._numbers[place]]
        best = next((key for key in self._waiting if key[-1] not in pending), None)
        if best is None or len(self._numbers) + bisect.bisect_left(self._ranked, best) >= count:
            return None
        return self._trials[best[-1]]


class Rungs(Reader):
    """The rungs of a history, from the lowest amount to the highest."""

    def __init__(self, amounts: Sequence[int]) -> None:
        self._amounts = amounts
        super().__init__()

    def _forget(self) -> None:
        self._rungs = {amount: Rung() for amount in self._amounts}
        self._ranking: _Ranking | None = None

    def _add(self, trial: Trial) -> None:
        # Leave out imported trials (numbers below 0), because they have no checkpoints to continue from.
        if trial.number >= 0 and trial.amount in self._rungs:
            if self._rungs[trial.amount].add(trial):
                self._ranking = None
            if trial.continues is not None:
                self._rungs[trial.trained].mark_continued(trial.continues)

    def __getitem__(self, place: int) -> Rung:
        return self._rungs[self._amounts[place]]

    @property
    def highest_open(self) -> int:
        """The index of the highest open rung, if rungs open progressively; the lowest rung has the index 0.

        Let r = max(1, the index of the highest rung that has trials). If the orders of the points on the rungs r - 1
        and r differ by more than noise, rung r + 1 is the highest open rung. Otherwise, or if rung r + 1 does not
        exist, rung r is the highest open rung.
        """
        rungs = list(self._rungs.values())
        reached = max([1, *(place for place, rung in enumerate(rungs) if len(rung))])
        if reached == len(rungs) - 1:
            return reached
        if self._ranking is None or self._ranking.width != reached + 1:
            self._ranking = _Ranking(reached + 1)
        return reached + self._ranking.differs([rung.losses for rung in rungs[: reached + 1]])


class _Ranking:
    """Compares the orders of the points on the two highest open rungs.

    `width` is the number of open rungs. Two losses count as equal if their difference is not above the noise level
    (soft ranking).
    """

    def __init__(self, width: int) -> None:
        self.width = width
        # `_rows`: the losses of the points, shape (points, rungs). `_noise`: the loss differences of the pairs of
        # points whose order changed at least twice from rung to rung.
        self._rows: NDArray[np.float64] = np.empty((0, width))
        self._noise: NDArray[np.float64] = np.empty(0)
        self._differs = False

    def differs(self, losses: Sequence[Mapping[str, float]]) -> bool:
        """Return whether the orders of the points on the two highest rungs differ by more than noise.

        One order is by the losses on the lower rung, and the other order is by the losses on the higher rung. For each
        position, take the point at this position in each of the two orders. Compare the losses of these two points on
        the lower rung. If, at any position, these losses differ by more than the noise level, return True.
        """
        # A lower rung has no loss of a trial without a report at the place at which the rung compares.
        new = [key for key in losses[-1] if all(key in rung for rung in losses)][len(self._rows) :]
        for key in new:
            self._add(np.array([rung[key] for rung in losses]))
        if new:
            before, last = self._rows[:, -2], self._rows[:, -1]
            apart = np.abs(before[np.argsort(last, kind="stable")] - np.sort(before))
            self._differs = bool((apart > self._noise_level).any())
        return self._differs

    def _add(self, row: NDArray[np.float64]) -> None:
        apart = self._rows - row
        changes, order = np.zeros(len(apart)), np.zeros(len(apart))
        for sign in np.sign(apart).T:
            changes += sign * order < 0
            order = np.where(sign, sign, order)
        self._noise = np.append(self._noise, np.abs(apart[changes > 1, -1]))
        self._rows = np.vstack((self._rows, row))

    @property
    def _noise_level(self) -> float:
        """The largest difference of two losses that counts as noise.

        The noise level is estimated from the pairs of points whose order by loss has changed at least twice from rung
        to rung. It is the 0.9 quantile of these pairs' loss differences on the highest open rung; 0 if there are no
        such pairs.
        """
        if not len(self._noise):
            return 0.0
        place = int(_NOISE * (len(self._noise) - 1))
        return float(np.partition(self._noise, place)[place])


@dataclass(frozen=True)
class Asha:
    """Train points briefly, and continue the best 1 / eta of each rung's trials without waiting for a rung to fill.

    When a lane is free, the strategy looks for a trial to continue, from the highest rung down. Such a trial must be
    among the best 1 / eta of the trials that have ended on its rung, and must not have been continued before. Failures
    rank last, and ties go to the earlier trial. The trial is then trained `eta` times as far. If there is no such
    trial, a new point (`NewPoints`) starts on the first rung. Each trial is one point on one rung, and a continuation
    costs only the training that it adds. The search ends when a finite space is exhausted and no trial can be
    continued.

    With several metrics, trials are ranked by Pareto fronts, and within a front by the hypervolume that each trial adds
    to the front. Trials that exceed a limit rank last, in ascending order of their excess (Deb 2000).

    With `rungs: progressive`, further rungs open only while the ranking is undecided. The next rung opens when the
    orders of the points on the two highest open rungs differ by more than noise. The last rung is at `max_amount`.
    Noise is measured as a difference of losses. With several metrics or with limits, a difference of losses does not
    show whether two orders differ by more than noise, because the ranking uses Pareto fronts or the excess over a
    limit. So a study with several metrics or with limits needs `rungs: fixed`.

    Source: Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", algorithm 2 (asha with promotions,
    only the bracket with the most halvings); Schmucker et al. 2021, "Multi-objective Asynchronous Successive Halving"
    (ranking by fronts); Bohdal et al. 2023, "PASHA: Efficient HPO and NAS with Progressive Resource Allocation" (soft
    ranking). Two things differ from the sources: within a front, the hypervolume decides and not the spread of the
    points; and noise is estimated from the losses on rungs, not from the losses of every epoch.

    Example: min_amount 1, max_amount 9, eta 3: as soon as three points are trained to 1, the best one is trained to 3.
    """

    REVISION: ClassVar[int] = 5

    settings: AshaSettings
    space: Space
    seed: int
    learns: ClassVar[Learns] = "by_trial"

    @property
    def announcement(self) -> str:
        """One line of text about the rungs."""
        amounts = ", ".join(map(str, self.amounts))
        opened = ", opened while the ranking changes" if self.settings.rungs == "progressive" else ""
        best = f"the best 1 / {self.settings.eta} of its rung"
        return f"asha: a trial continues as soon as it is among {best}, rungs at {amounts}{opened}"

    @property
    def refuses_several(self) -> str | None:
        """Why the strategy cannot search with several metrics or with a limit; None if the strategy can."""
        if self.settings.rungs == "fixed":
            return None
        return "with strategy.rungs=progressive needs a single metric and no limits (strategy.rungs=fixed does not)"

    @property
    def amounts(self) -> list[int]:
        """The amounts of the rungs."""
        return self.settings.amounts(self.settings.num_halvings)

    def expected_at_end(self, configurations: int) -> int:
        """Return how many of the configurations will be trained to `max_amount`.

        The number assumes that 1 / `eta` of the configurations on each rung continue on the next rung. With many lanes,
        the number is too large, because the search may end before the last trials can be continued.
        """
        return int(configurations // self.settings.eta ** (len(self.amounts) - 1))

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Proposal]:
        """Return the best trial to continue, or a new point for the first rung, or no proposal if neither exists."""
        amounts = self.amounts
        self._rungs.read(known)
        continued = {trial.continues for trial in pending}
        top = len(amounts) - 1 if self.settings.rungs == "fixed" else self._rungs.highest_open
        for place in range(top - 1, -1, -1):
            trial = self._rungs[place].best_waiting(self.settings.eta, continued)
            if trial is not None:
                return [Proposal(trial.point, amounts[place + 1], trial.number, amounts[place])]
        rng = generator(self.seed, known, pending)
        return [Proposal(point, amounts[0]) for point in self._new_points.draw(known, pending, rng, 1)]

    @cached_property
    def _new_points(self) -> NewPoints:
        return NewPoints(self.space, self.settings.new_points == "learned")

    @cached_property
    def _rungs(self) -> Rungs:
        return Rungs(self.amounts)
