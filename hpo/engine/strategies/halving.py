"""Successive halving and Hyperband: train many points a little, and continue only the best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from hpo.engine.strategies.drawing.new_points import NewPoints
from hpo.engine.strategies.strategy import MOST, Learns, Settings
from hpo.trials.history import History
from hpo.trials.ranking import at_same_place, leaders
from hpo.trials.space.space import Space
from hpo.trials.trial import Proposal, Trial


class HalvingSettings(Settings):
    """Settings of halving and Hyperband: r, R and eta of the paper, and what the budget counts; see conf/strategy."""

    min_amount: int = Field(ge=1, le=MOST)
    max_amount: int = Field(ge=1, le=MOST)
    eta: int = Field(ge=2, le=MOST)
    counts: Literal["trials", "configurations"]
    new_points: Literal["learned", "random"]

    @field_validator("max_amount", mode="before")
    @classmethod
    def _is_given(cls, value: Any) -> Any:
        # conf/ leaves None where there are no epochs to take it from.
        if value is None:
            raise PydanticCustomError("missing", "is missing")
        return value

    @model_validator(mode="after")
    def _has_rungs(self) -> Self:
        if self.min_amount >= self.max_amount:
            raise PydanticCustomError(
                "cross_field",
                "must rise, given {low} and {high}; with a single amount nothing is halved",
                {
                    "low": self.min_amount,
                    "high": self.max_amount,
                    "keys": ["strategy.min_amount", "strategy.max_amount"],
                },
            )
        return self

    @property
    def num_halvings(self) -> int:
        """The number of rungs after the first, each trained `eta` times as far, up to `max_amount`.

        The paper's s_max rounded up, not down: where `max_amount` is not a power of `eta`, the first rung is rounded.
        """
        halvings, amount = 0, self.min_amount
        while amount < self.max_amount:
            halvings, amount = halvings + 1, amount * self.eta
        return halvings

    def amounts(self, num_halvings: int) -> list[int]:
        """Return the amounts of a bracket's rungs: rising by `eta`, the last is `max_amount`."""
        amounts = [max(self.min_amount, self.max_amount // self.eta**k) for k in range(num_halvings, -1, -1)]
        return sorted(set(amounts))

    @property
    def brackets(self) -> list[int]:
        """The number of halvings of each kind of bracket, from the most to none; all start with different amounts."""
        kinds: dict[int, int] = {}
        for num_halvings in range(self.num_halvings, -1, -1):
            kinds.setdefault(self.amounts(num_halvings)[0], num_halvings)
        return list(kinds.values())

    def share_of_training(self, num_halvings: int) -> float:
        """Return what a point of a bracket costs on average, as a share of a full training."""
        points, amounts, cost = self.first_points(num_halvings), self.amounts(num_halvings), 0
        for rung, amount in enumerate(amounts):
            trained = self.survivors(num_halvings, rung) if rung else points
            cost += trained * (amount - (amounts[rung - 1] if rung else 0))
        return cost / (points * self.max_amount)

    def first_points(self, num_halvings: int) -> int:
        """Return a bracket's number of first points: n of algorithm 1, so that brackets have similar costs."""
        longest = self.num_halvings + 1
        points: int = self.eta**num_halvings
        return math.ceil(longest * points / (num_halvings + 1))

    def survivors(self, num_halvings: int, rung: int) -> int:
        """Return the number of points on a later rung, counted from 1."""
        share: int = self.eta**rung
        return max(1, self.first_points(num_halvings) // share)


class SuccessiveHalvingSettings(HalvingSettings):
    """Settings of successive halving; conf/strategy/successive_halving.yaml says what each is."""

    points: int | None = Field(ge=1, le=MOST)
    keep: int | None = Field(ge=1, le=MOST)

    @model_validator(mode="after")
    def _drops_some(self) -> Self:
        if self.keep is not None and self.keep >= self.first_points(self.num_halvings):
            raise PydanticCustomError(
                "cross_field",
                "must drop some, given {keep} kept of {points}; with all kept nothing is saved",
                {
                    "keep": self.keep,
                    "points": self.first_points(self.num_halvings),
                    "keys": ["strategy.keep", "strategy.points"],
                },
            )
        return self

    def amounts(self, num_halvings: int) -> list[int]:
        """Return the amounts of a bracket's rungs; with `keep`, the first and the last."""
        return super().amounts(num_halvings) if self.keep is None else [self.min_amount, self.max_amount]

    def first_points(self, num_halvings: int) -> int:
        """Return a bracket's number of first points."""
        return self.points or super().first_points(num_halvings)

    def survivors(self, num_halvings: int, rung: int) -> int:
        """Return the number of points on a later rung."""
        return self.keep or super().survivors(num_halvings, rung)


@dataclass(frozen=True)
class SuccessiveHalving:
    """Consecutive brackets: new points on the first rung, the best 1 / eta of each rung on the next.

    Synchronous: a rung is finished before the next is proposed. A survivor continues from its own checkpoint, so a rung
    costs only what it adds. First points: eta ** (number of halvings) new ones,
    drawn by `NewPoints` (in the first bracket at random). Failures never survive; ties go to
    the earlier trial. A rung with too few successes passes on fewer. Ends when a finite space is exhausted.

    With several metrics the best of a rung are those of its first fronts, and of one front those that add most to its
    hypervolume; what exceeds a limit comes after all that does not: see `Asha`.

    With `keep` there are two rungs: the best `keep` of `points` are trained to the end. After one epoch this is the
    baseline that every method of several rungs must beat (Egele et al. 2023, "Is One Epoch All You Need For
    Multi-Fidelity Hyperparameter Optimization?").

    Source: Jamieson & Talwalkar 2016, "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
    algorithm 1; amounts and numbers as in Li et al. 2018, "Hyperband", JMLR 18, section 3. We differ: brackets with new
    points follow each other until the budget ends.

    Example: min_amount 1, max_amount 9, eta 3: 9 points for 1 epoch, the best 3 for 2 more, the best one for 6 more.
    """

    # Rises where the same settings, history and seed would give other points.
    REVISION: ClassVar[int] = 4

    settings: HalvingSettings
    space: Space
    seed: int

    def next_halvings(self, last: int | None) -> int:  # noqa: ARG002 -- the same call as its siblings
        """Return the number of halvings of the next bracket, given that of the last one (None before the first)."""
        return self.settings.num_halvings

    @property
    def announcement(self) -> str:
        """One line on the rungs."""
        halvings = self.next_halvings(None)
        amounts = ", ".join(map(str, self.settings.amounts(halvings)))
        first = self.settings.first_points(halvings)
        then = f", then 1 in {self.settings.eta}," if len(self.settings.amounts(halvings)) > 2 else ""
        best = f"the best {self.settings.survivors(halvings, 1)}{then}"
        return f"successive halving: {first} points, {best} continue, by {amounts}"

    def expected_at_end(self, configurations: int) -> int:
        """Return how many of so many configurations are trained to `max_amount` by halving, if none fails."""
        reached, halvings = 0, self.next_halvings(None)
        while (first := self.settings.first_points(halvings)) <= configurations:
            configurations -= first
            rungs = len(self.settings.amounts(halvings))
            reached += self.settings.survivors(halvings, rungs - 1) if rungs > 1 else first
            halvings = self.next_halvings(halvings)
        # Of a bracket that is cut, nobody goes on.
        return reached + (configurations if len(self.settings.amounts(halvings)) == 1 else 0)

    learns: ClassVar[Learns] = "by_round"

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Proposal]:
        """Return the next rung of the bracket, or the first of a new one; nothing until the last one is finished."""
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
        """Return the halvings of the last bracket (None before the first), and the next rung, reading from the end."""
        rung = 0
        last_round = None
        for place in range(len(history) - 1, -1, -1):
            trial: Trial = history[place]
            if trial.round < 0:
                break
            # A retry joins any rung, and makes none.
            if trial.retry_of is not None:
                continue
            rung += trial.round != last_round
            last_round = trial.round
            if trial.trained == 0:
                return next((s for s in self.settings.brackets if self.settings.amounts(s)[0] == trial.amount), 0), rung
        return None, 0

    def _survivors(self, history: History, halvings: int, rung: int) -> list[Trial]:
        """Return the trials of the last round that are continued, the best first."""
        count = self.settings.survivors(halvings, rung)
        own = next(trial for trial in reversed(history) if trial.retry_of is None)
        last: list[Trial] = []
        for trial in reversed(history):
            if trial.round < own.round:
                break
            # Retries of the same rung rise as others do.
            if trial.amount == own.amount:
                last.append(trial)
        # Only complete ones: a trial that a race stopped lacks the state of some folds, and was behind anyway.
        return leaders(at_same_place(last), count)


@dataclass(frozen=True)
class Hyperband(SuccessiveHalving):
    """Brackets of successive halving, each with fewer points that are trained longer at first.

    The amount that separates good points from bad ones is not known, so brackets of all kinds take turns: from the
    one that halves most to the one that trains all its points to the end, and again. Otherwise as successive halving.

    Source: Li, Jamieson, DeSalvo, Rostamizadeh & Talwalkar 2018, "Hyperband", JMLR 18, algorithm 1.

    Example: min_amount 1, max_amount 9, eta 3: brackets of 9 points from 1, of 5 points from 3, and of 3 points
    from 9, then 9 points again.
    """

    REVISION: ClassVar[int] = 4

    def next_halvings(self, last: int | None) -> int:
        """Return the number of halvings of the next bracket (s of algorithm 1): from most to none, and again."""
        kinds = self.settings.brackets
        return kinds[(kinds.index(last) + 1) % len(kinds)] if last in kinds else kinds[0]

    @property
    def announcement(self) -> str:
        """One line on the brackets."""
        kinds = self.settings.brackets
        brackets = ", ".join(f"{self.settings.first_points(s)} from {self.settings.amounts(s)[0]}" for s in kinds)
        return f"hyperband: brackets of points from an amount of training: {brackets}, up to {self.settings.max_amount}"
