"""Asynchronous successive halving: it continues the best trials of every rung as soon as they are known."""

import bisect
import itertools
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

# The quantile of the differences of criss-crossing pairs that counts as noise, as in Bohdal et al. 2023.
_NOISE = 0.9


class AshaSettings(HalvingSettings):
    """Settings of asynchronous successive halving, described in conf/strategy/asha.yaml."""

    rungs: Literal["fixed", "progressive"]


class Rung:
    """The trials that have ended on one rung, ranked, and the losses of the complete ones by point.

    If trainings report at different places, the rung compares the losses at the last place that all have reported.
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
        # Sorted by `sort_key`: all trials, or with several metrics those beyond a limit. The second list holds the
        # complete ones of these that are not continued yet.
        self._ranked: list[tuple[float, float, int]] = []
        self._waiting: list[tuple[float, float, int]] = []
        # With several metrics, the trials within the limits: their fronts, and by place (the order of `add`) their
        # numbers and whether they are not continued yet.
        self._fronts: Fronts | None = None
        self._numbers: list[int] = []
        self._places: dict[int, int] = {}
        self._waits = bytearray()

    def __len__(self) -> int:
        return len(self._trials)

    def add(self, trial: Trial) -> bool:
        """Add a trial that has ended here; return whether the losses of other trials have changed."""
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
        """Return the best waiting trial, if it is among the best 1 / `eta` of the rung.

        `pending` holds the numbers of trials whose continuation is pending: these do not wait.
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
    """The rungs of a history, the lowest amount first."""

    def __init__(self, amounts: Sequence[int]) -> None:
        self._amounts = amounts
        super().__init__()

    def _forget(self) -> None:
        self._rungs = {amount: Rung() for amount in self._amounts}
        self._ranking: _Ranking | None = None

    def _add(self, trial: Trial) -> None:
        # Imported trials have no checkpoints to continue from.
        if trial.number >= 0 and trial.amount in self._rungs:
            if self._rungs[trial.amount].add(trial):
                self._ranking = None
            if trial.continues is not None:
                self._rungs[trial.trained].mark_continued(trial.continues)

    def __getitem__(self, place: int) -> Rung:
        return self._rungs[self._amounts[place]]

    @property
    def highest_open(self) -> int:
        """The place of the highest open rung, if rungs open progressively.

        It is the highest rung with trials, at least the second. If this rung ranks its points differently than the rung
        below, the next one is open, too.
        """
        rungs = list(self._rungs.values())
        reached = max([1, *(place for place, rung in enumerate(rungs) if len(rung))])
        if reached == len(rungs) - 1:
            return reached
        if self._ranking is None or self._ranking.width != reached + 1:
            self._ranking = _Ranking(reached + 1)
        return reached + self._ranking.differs([rung.losses for rung in rungs[: reached + 1]])


class _Ranking:
    """Compares the order of points on the last two of `width` rungs, up to noise (soft ranking)."""

    def __init__(self, width: int) -> None:
        self.width = width
        # The losses of the points: shape (points, rungs). The loss differences of pairs that changed places twice.
        self._rows: NDArray[np.float64] = np.empty((0, width))
        self._noise: NDArray[np.float64] = np.empty(0)
        self._differs = False

    def differs(self, losses: Sequence[Mapping[str, float]]) -> bool:
        """Return whether the order of the points on the last rung differs from the rung before by more than noise."""
        new = list(itertools.islice(losses[-1], len(self._rows), None))
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
        """The difference of two losses that counts as noise; 0 if no pair changed places twice."""
        if not len(self._noise):
            return 0.0
        place = int(_NOISE * (len(self._noise) - 1))
        return float(np.partition(self._noise, place)[place])


@dataclass(frozen=True)
class Asha:
    """Train points briefly, and continue the best 1 / eta of each rung without waiting for a rung to fill.

    When a lane is free, the strategy looks from the highest rung down for a trial to continue. It must be among the
    best 1 / eta that have ended on its rung (failures last, ties to the earlier trial), and not be continued yet. The
    trial is then trained `eta` times as far. If there is none, a new point (`NewPoints`) starts on the first rung. A
    trial is one point on one rung, and a continuation costs only the training that it adds. The search ends when a
    finite space is exhausted and no trial can be continued.

    With several metrics, trials are ranked by Pareto fronts, and within a front by what they add to the rung's
    hypervolume. Trials that exceed a limit come last, the least excess first (Deb 2000).

    With `rungs: progressive` the highest rung opens only while the ranking is undecided. As soon as the order of the
    points on the two highest rungs differs by more than noise, the next rung opens, up to `max_amount`. Noise is a
    difference of losses. A ranking by fronts has no such measure: two trials of a front change places as soon as
    another trial changes what each of them adds. So several metrics and limits need `rungs: fixed`.

    Source: Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning", algorithm 2 (asha with promotions,
    only the bracket with the most halvings); Schmucker et al. 2021, "Multi-objective Asynchronous Successive Halving"
    (rungs by fronts); Bohdal et al. 2023, "PASHA: Efficient HPO and NAS with Progressive Resource Allocation" (soft
    ranking). We differ: the hypervolume decides within a front, not the spread of the points; noise comes from the
    losses on rungs, not from those of every epoch.

    Example: min_amount 1, max_amount 9, eta 3: as soon as three points have ended on 1, the best is trained to 3.
    """

    # Increase it when the same settings, history and seed would give other points.
    REVISION: ClassVar[int] = 4

    settings: AshaSettings
    space: Space
    seed: int
    learns: ClassVar[Learns] = "by_trial"

    @property
    def announcement(self) -> str:
        """One line about the rungs."""
        amounts = ", ".join(map(str, self.amounts))
        opened = ", opened while the ranking changes" if self.settings.rungs == "progressive" else ""
        return f"asha: the best 1 in {self.settings.eta} of a rung continue at once, by {amounts}{opened}"

    @property
    def refuses_several(self) -> str | None:
        """Why it cannot search with several metrics or limits; None if it can."""
        if self.settings.rungs == "fixed":
            return None
        return "needs a single metric without limits with strategy.rungs=progressive (unlike strategy.rungs=fixed)"

    @property
    def amounts(self) -> list[int]:
        """The amounts of the rungs."""
        return self.settings.amounts(self.settings.num_halvings)

    def expected_at_end(self, configurations: int) -> int:
        """Return how many of the configurations are trained to `max_amount`, if all rungs fill."""
        return int(configurations // self.settings.eta ** (len(self.amounts) - 1))

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Proposal]:
        """Return the best trial to continue, or a new point for the first rung."""
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
