"""Successive halving and Hyperband: train many points briefly, and continue only the best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from hpo.config.sections import conflict
from hpo.engine.strategies.drawing.new_points import NewPoints
from hpo.engine.strategies.strategy import MOST, Learns, Settings
from hpo.trials.history import History
from hpo.trials.ranking import at_same_place, leaders
from hpo.trials.space.space import Space
from hpo.trials.trial import Proposal, Trial


class HalvingSettings(Settings):
    """Settings of successive halving and Hyperband, described in conf/strategy.

    The first three settings are r, R and eta of the Hyperband paper.
    """

    min_amount: int = Field(ge=1, le=MOST)
    max_amount: int = Field(ge=1, le=MOST)
    eta: int = Field(ge=2, le=MOST)
    counts: Literal["trials", "configurations"]
    new_points: Literal["learned", "random"]

    @field_validator("max_amount", mode="before")
    @classmethod
    def _is_given(cls, value: Any) -> Any:
        # The default in conf/ is the objective's number of epochs. It is None if the objective has no such number.
        if value is None:
            raise PydanticCustomError("missing", "is missing")
        return value

    @model_validator(mode="after")
    def _has_rungs(self) -> Self:
        if self.min_amount >= self.max_amount:
            given = f"given {self.min_amount} and {self.max_amount}"
            text = f"must be in ascending order, {given}; the first rung must train less than the last rung"
            raise conflict(text, "strategy.min_amount", "strategy.max_amount")
        return self

    @property
    def num_halvings(self) -> int:
        """The number of rungs after the first; each of these rungs trains about `eta` times as far as the rung before.

        The Hyperband paper calls this number s_max: log_eta(max_amount / min_amount), rounded down. Here, the logarithm
        is rounded to the nearest whole number, and the result is at least 1. If the result is 2 or more, the second
        rung trains at least sqrt(eta) times as far as the first.
        """
        halvings = 1
        while (self.max_amount // self.eta**halvings) ** 2 >= self.min_amount**2 * self.eta:
            halvings += 1
        return halvings

    def amounts(self, num_halvings: int) -> list[int]:
        """Return the amounts of a bracket's rungs: each is about `eta` times the previous; the last is `max_amount`."""
        amounts = [self.max_amount // self.eta**k for k in range(num_halvings, -1, -1)]
        return [self.min_amount, *amounts[1:]] if num_halvings == self.num_halvings else amounts

    @property
    def brackets(self) -> list[int]:
        """The numbers of halvings that brackets can have, in descending order."""
        return [*range(self.num_halvings, -1, -1)]

    def share_of_training(self, num_halvings: int) -> float:
        """Return the average cost of a point in a bracket, as a share of the cost of a full training."""
        points, amounts, cost = self.first_points(num_halvings), self.amounts(num_halvings), 0
        for rung, amount in enumerate(amounts):
            trained = self.survivors(num_halvings, rung) if rung else points
            cost += trained * (amount - (amounts[rung - 1] if rung else 0))
        return cost / (points * self.max_amount)

    def first_points(self, num_halvings: int) -> int:
        """Return the number of points on a bracket's first rung.

        This number is n in algorithm 1 of the Hyperband paper; with it, all brackets have similar costs.
        """
        longest = self.num_halvings + 1
        points: int = self.eta**num_halvings
        return math.ceil(longest * points / (num_halvings + 1))

    def survivors(self, num_halvings: int, rung: int) -> int:
        """Return how many points of a bracket reach the rung with the index `rung`; 1 = the second rung."""
        share: int = self.eta**rung
        return max(1, self.first_points(num_halvings) // share)


class SuccessiveHalvingSettings(HalvingSettings):
    """Settings of successive halving, described in conf/strategy/successive_halving.yaml."""

    points: int | None = Field(ge=1, le=MOST)
    keep: int | None = Field(ge=1, le=MOST)

    @model_validator(mode="after")
    def _drops_some(self) -> Self:
        points = self.first_points(self.num_halvings)
        if self.keep is not None and self.keep >= points:
            text = f"must be below the number of points, given {self.keep} of {points}; otherwise no point is dropped"
            raise conflict(text, "strategy.keep", "strategy.points")
        return self

    def amounts(self, num_halvings: int) -> list[int]:
        """Return the amounts of a bracket's rungs; if `keep` is given, return only the first and the last amount."""
        return super().amounts(num_halvings) if self.keep is None else [self.min_amount, self.max_amount]

    def first_points(self, num_halvings: int) -> int:
        """Return `points`, the number of points on a bracket's first rung.

        If `points` is None, return the number that Hyperband uses.
        """
        return self.points or super().first_points(num_halvings)

    def survivors(self, num_halvings: int, rung: int) -> int:
        """Return how many points of a bracket reach the rung with the index `rung`; 1 = the second rung.

        The number is `keep`. If `keep` is None, return the number that Hyperband uses.
        """
        return self.keep or super().survivors(num_halvings, rung)


@dataclass(frozen=True)
class SuccessiveHalving:
    """Train brackets one after another: new points on the first rung, then the best 1 / eta of each rung's points.

    The strategy is synchronous: it proposes a rung when all trials of the previous rung have ended. Each survivor
    continues from its checkpoint, so a rung costs only the training that it adds. A bracket starts with `points` new
    points (by default, eta ** (number of halvings) points), drawn by `NewPoints`. Failed trials never survive, and ties
    go to the earlier trial. If a rung has fewer complete trials than the next rung needs, the next rung is smaller. The
    search ends when a finite space is exhausted.

    With several metrics, trials are ranked by Pareto fronts, as in `Asha`.

    With the setting `keep`, there are only two rungs: the best `keep` of `points` points are fully trained. If the
    first rung is one epoch, this strategy is the baseline against which methods with more rungs are compared (Egele et
    al. 2023, "Is One Epoch All You Need For Multi-Fidelity Hyperparameter Optimization?").

    Source: Jamieson & Talwalkar 2016, "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
    algorithm 1; amounts of the rungs and numbers of points as in Li et al. 2018, "Hyperband", JMLR 18, section 3.
    Unlike in algorithm 1, further brackets with new points follow until the budget ends.

    Example: with min_amount 1, max_amount 9 and eta 3, 9 points are trained for 1 epoch, the best 3 of them for 2 more
    epochs, and the best one for 6 more.
    """

    REVISION: ClassVar[int] = 5

    settings: HalvingSettings
    space: Space
    seed: int

    def next_halvings(self, last: int | None) -> int:  # noqa: ARG002 -- the same call as its siblings
        """Return the number of halvings of the next bracket.

        `last` is the number of halvings of the current bracket; None before the first bracket.
        """
        return self.settings.num_halvings

    @property
    def announcement(self) -> str:
        """One line of text about the rungs."""
        halvings = self.next_halvings(None)
        amounts = ", ".join(map(str, self.settings.amounts(halvings)))
        first = self.settings.first_points(halvings)
        several = len(self.settings.amounts(halvings)) > 2
        then = f", then the best 1 / {self.settings.eta} of each rung" if several else ""
        best = f"the best {self.settings.survivors(halvings, 1)} continue{then}"
        return f"successive halving: {first} points, {best}, rungs at {amounts}"

    def expected_at_end(self, configurations: int) -> int:
        """Return how many of the configurations will be trained to `max_amount` if no training fails."""
        reached, halvings = 0, self.next_halvings(None)
        while (first := self.settings.first_points(halvings)) <= configurations:
            configurations -= first
            rungs = len(self.settings.amounts(halvings))
            reached += self.settings.survivors(halvings, rungs - 1) if rungs > 1 else first
            halvings = self.next_halvings(halvings)
        # An incomplete bracket never gets to its second rung.
        return reached + (configurations if len(self.settings.amounts(halvings)) == 1 else 0)

    learns: ClassVar[Learns] = "by_round"

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Proposal]:
        """Return the bracket's next rung, or the first rung of a new bracket; no points while a trial is pending."""
        return [] if pending else self._next_rung(known)

    def _next_rung(self, history: History) -> Sequence[Proposal]:
        halvings, rung = self._place(history)
        if halvings is not None:
            amounts = self.settings.amounts(halvings)
            survivors = self._survivors(history, halvings, rung) if rung < len(amounts) else []
            if survivors:
                return [Proposal(t.point, amounts[rung], t.number, amounts[rung - 1]) for t in survivors]
        halvings = self.next_halvings(halvings)
        rng = np.random.default_rng((self.seed, len(history)))
        points = self._new_points.draw(history, [], rng, self.settings.first_points(halvings))
        return [Proposal(point, self.settings.amounts(halvings)[0]) for point in points]

    @cached_property
    def _new_points(self) -> NewPoints:
        return NewPoints(self.space, self.settings.new_points == "learned")

    def _place(self, history: History) -> tuple[int | None, int]:
        """Return the current bracket's number of halvings and its next rung; None and 0 before the first bracket."""
        rung = 0
        last_round = None
        for place in range(len(history) - 1, -1, -1):
            trial: Trial = history[place]
            if trial.round < 0:
                break
            # A retry may begin in a later round, but it belongs to the rung of the trial that it retries.
            if trial.retry_of is not None:
                continue
            rung += trial.round != last_round
            last_round = trial.round
            if trial.trained == 0:
                return next((s for s in self.settings.brackets if self.settings.amounts(s)[0] == trial.amount), 0), rung
        return None, 0

    def _survivors(self, history: History, halvings: int, rung: int) -> list[Trial]:
        """Return the best trials of the rung that has just ended, the best first; they continue on the next rung."""
        count = self.settings.survivors(halvings, rung)
        own = next(trial for trial in reversed(history) if trial.retry_of is None)
        last: list[Trial] = []
        for trial in reversed(history):
            if trial.round < own.round:
                break
            # Retries on this rung are included, because they may continue, too.
            if trial.amount == own.amount:
                last.append(trial)
        # `leaders` leaves out trials that are not complete: a trial stopped by a race lacks some folds' checkpoints.
        return leaders(at_same_place(last), count)


@dataclass(frozen=True)
class Hyperband(SuccessiveHalving):
    """Cycle through brackets of successive halving.

    Within a cycle, each bracket starts at a larger amount than the bracket before. The number of points on the first
    rung usually falls from bracket to bracket, and never rises.

    It is unknown how much training distinguishes good points from bad ones. So a cycle goes from the bracket with the
    most halvings to the bracket that fully trains all its points, and then begins again. In all other respects, this
    strategy is the same as `SuccessiveHalving`.

    Source: Li, Jamieson, DeSalvo, Rostamizadeh & Talwalkar 2018, "Hyperband", JMLR 18, algorithm 1.

    Example: with min_amount 1, max_amount 9 and eta 3, the first bracket starts with 9 points at amount 1. The second
    starts with 5 points at amount 3, the third with 3 points at amount 9. The fourth is like the first again.
    """

    REVISION: ClassVar[int] = 5

    def next_halvings(self, last: int | None) -> int:
        """Return the number of halvings of the next bracket (s in algorithm 1 of the Hyperband paper).

        The brackets follow each other from the highest to the lowest number of halvings, and then begin again.
        """
        kinds = self.settings.brackets
        return kinds[(kinds.index(last) + 1) % len(kinds)] if last in kinds else kinds[0]

    @property
    def announcement(self) -> str:
        """One line of text about the brackets."""
        kinds = self.settings.brackets
        points = ", ".join(str(self.settings.first_points(s)) for s in kinds)
        starts = ", ".join(str(self.settings.amounts(s)[0]) for s in kinds)
        most = self.settings.max_amount
        return f"hyperband: brackets of {points} points start at amounts {starts}; each bracket continues up to {most}"
