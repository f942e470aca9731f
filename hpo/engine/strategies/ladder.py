"""The ladder: most trials where training is cheap, and at each larger scale fewer, where the best is expected."""

import math
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, PositiveFloat

from hpo.config.goals import SCALE
from hpo.engine.strategies.asha import AshaSettings
from hpo.engine.strategies.drawing.draws import draw_stratified
from hpo.engine.strategies.drawing.expected import Expected, expect
from hpo.engine.strategies.halving import HalvingSettings, SuccessiveHalvingSettings
from hpo.engine.strategies.strategy import MOST, Learns, Settings, Strategy, generator
from hpo.errors import ConfigError
from hpo.trials.history import History
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Proposal, Trial

HALVINGS: Mapping[str, type[HalvingSettings]] = {"asha": AshaSettings, "successive_halving": SuccessiveHalvingSettings}
"""The strategies at the smallest scale that train by amounts, with their settings."""

# What asha costs, over what halving with the same numbers of points does: it continues what is among the best for a
# while, and the later points that are drawn by what it has learned are better (benchmarks/ladder: 1.5 by 39 points and
# by 63).
_ASHA = 1.5


class LadderSettings(Settings):
    """Settings of the ladder; conf/strategy/ladder.yaml says what each is."""

    first: Mapping[str, Any]
    trials: int = Field(ge=1, le=MOST)
    budget: PositiveFloat | None
    elite: float = Field(gt=0, le=1)
    costs: list[PositiveFloat] | None
    cost_ratio: float = Field(gt=0, le=1)
    max_amount: int | None = Field(ge=1, le=MOST)

    @property
    def costs_of_points(self) -> list[float]:
        """What a point costs at each scale, in trainings at the target; less than one where halving trains it."""
        assert self.costs is not None
        shares = [cost / self.costs[-1] for cost in self.costs]
        if (halving := HALVINGS.get(self.first.get("name", ""))) is not None:
            settings = halving.model_validate(dict(self.first))
            shares[0] *= settings.share_of_training(settings.num_halvings)
            shares[0] *= _ASHA if isinstance(settings, AshaSettings) else 1.0
        return shares

    @property
    def planned(self) -> tuple[int, ...]:
        """How many points each scale gets: `trials` the first, each other as many as its share of cost allows."""
        costs = self.costs_of_points
        return tuple(
            max(1, round(self.trials * costs[0] / cost * self.cost_ratio**place)) for place, cost in enumerate(costs)
        )

    def within_budget(self) -> tuple[Self, int]:
        """Return the settings with the most `trials` whose plan `budget` pays, and how many trials it pays in all.

        What is left over pays for more at the target. ConfigError where it does not pay for one trial at each scale.
        """
        costs, budget = self.costs_of_points, self.budget
        assert budget is not None
        for trials in range(min(MOST, int(budget / costs[0])), 0, -1):
            plan = self.model_copy(update={"trials": trials, "budget": None})
            left = budget - sum(map(operator.mul, plan.planned, costs))
            if left >= 0:
                return plan, sum(plan.planned) + int(left)
        raise ConfigError(
            f"strategy.budget: must pay for a trial at each scale, {math.fsum(costs):.3g} trainings at the target, "
            f"given {budget:g}"
        )


@dataclass(frozen=True)
class Ladder:
    """Climbs from scale to scale, as shifting windows move.

    At the smallest scale another strategy searches, for `trials` points; one that halves trains its best further. Each
    larger scale then gets as many trials, full trainings, as cost together `cost_ratio` times what the scale before
    does, at least one, all planned when that has ended. The first is
    the point that is expected to be the best, the others are spread over windows around it; both move on as the best
    values have moved so far, and are the narrower the surer that is (see `expect`). After the last planned trial
    further ones are drawn from the windows around the best at the target, one at a time.

    Failures are never the best; where a whole scale has failed, the points of the next are spread over the whole space.

    Source: windows: see `ShiftingWindow`; small scales first: Yang et al. 2021, "Tensor programs V", algorithm 1, whose
    ladder has two scales and one trial at the target.

    Example: costs 1, 4, 16, `trials: 24` and `cost_ratio: 0.5`: 24 trials at the first scale, then 3, then 1.
    """

    # Rises where the same settings, history and seed would give other points.
    REVISION: ClassVar[int] = 1

    settings: LadderSettings
    space: Space
    seed: int

    def __post_init__(self) -> None:
        if SCALE not in self.space.keys:
            raise ConfigError(
                "strategy: ladder climbs from scale to scale; give study.scales two or more, small to target"
            )
        costs = self.settings.costs
        if costs is None:
            raise ConfigError(
                "strategy.costs: are not known; give the cost of a training at each scale, such as [1, 4, 16]"
            )
        if len(costs) != self._target or any(map(operator.ge, costs, costs[1:])):
            raise ConfigError(
                f"strategy.costs: must be one for each of the {self._target} scales and grow, given {list(costs)}; "
                f"give study.scales from the cheapest to the most expensive"
            )
        assert self._first

    @property
    def _scales(self) -> range:
        return range(1, len(self.space[SCALE].values) + 1)

    @property
    def _target(self) -> int:
        return len(self._scales)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many points are planned at each scale, each once at most."""
        return tuple(min(count, self._inner.size or count) for count in self.settings.planned)

    @property
    def announcement(self) -> str:
        """One line on the trials at each scale."""
        counts = ", ".join(map(str, self.counts))
        rest = "then the rest of the budget there"
        return (
            f"ladder: {counts} trials from the smallest scale to the target, {rest}; first {self._first.announcement}"
        )

    @property
    def learns(self) -> Learns:
        """By trials, or as the strategy of the smallest scale."""
        return "by_round" if self._first.learns == "by_round" else "by_trial"

    @property
    def refuses_several(self) -> str:
        """It fits where the best values of one metric lie."""
        return "expects where the best of one metric lies"

    @cached_property
    def _inner(self) -> Space:
        """The space of one scale."""
        return replace(self.space, dimensions=tuple(d for d in self.space.dimensions if d.key != SCALE), first=())

    @cached_property
    def _first(self) -> Strategy:
        # Here, since the table of strategies has this one.
        from hpo.engine.strategies import make_strategy

        return make_strategy(self.settings.first, self._inner, self.seed)

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Proposal]:
        """Return the next points of the scale that is searched; none while an earlier one has not ended."""
        ended = [[trial.within_scale for trial in known if trial.point[SCALE] == scale] for scale in self._scales]
        running = [[trial.within_scale for trial in pending if trial.point[SCALE] == scale] for scale in self._scales]
        rng = generator(self.seed, known, pending)
        # Of a search that goes on from another one's scales, those are over.
        begun = max((trial.scale for trial in known if trial.number < 0), default=1)
        for scale, count in enumerate(self.counts, start=1):
            begun_there = (*ended[scale - 1], *running[scale - 1])
            there = sum(trial.continues is None and trial.retry_of is None for trial in begun_there)
            missing = 0 if scale < begun else count - there
            if scale == begun == 1 and (missing > 0 or self.settings.max_amount is not None):
                if proposed := self._first_points(ended[0], running[0], max(0, missing)):
                    return proposed
                if running[0]:
                    return []
            elif missing > 0 and pending:
                return []
            elif missing > 0:
                tried = {trial.key for trial in ended[scale - 1]}
                if points := self._draw(scale, ended[: scale - 1], rng, tried, missing):
                    return self._in_full(points)
        tried = {trial.key for trial in (*ended[-1], *running[-1])}
        return self._in_full(self._draw(self._target, ended, rng, tried, 1))

    def _first_points(self, ended: Sequence[Trial], running: Sequence[Trial], missing: int) -> Sequence[Proposal]:
        """Return what the strategy of the smallest scale trains further, and so many of its new points at most."""
        proposed = self._first.propose(History(ended), running)
        each = [one if isinstance(one, Proposal) else Proposal(one) for one in proposed]
        further = [one for one in each if one.continues is not None]
        new = [one for one in each if one.continues is None]
        return [replace(one, point={SCALE: 1, **one.point}) for one in (*further, *new[:missing])]

    def _in_full(self, points: Sequence[Point]) -> Sequence[Proposal]:
        return [Proposal(point, self.settings.max_amount) for point in points]

    def _draw(
        self, scale: int, known: Sequence[Sequence[Trial]], rng: np.random.Generator, tried: Collection[str], count: int
    ) -> Sequence[Point]:
        """Return points at a scale: the one that is expected to be the best, and others around it."""
        expected = self.expected(scale, known)
        points: list[Point] = []
        if expected is None:
            space = self._inner
        else:
            space = expected.space
            if point_key(expected.point) not in tried:
                points = [expected.point]
        taken = {*tried, *map(point_key, points)}
        for searched in (space, self._inner):
            # Where the windows hold nothing untried, from the whole space.
            if len(points) < count:
                drawn = draw_stratified(searched, rng, taken, count - len(points))
                points, taken = [*points, *drawn], taken | {*map(point_key, drawn)}
        return [{SCALE: scale, **point} for point in points]

    def expected(self, scale: int, known: Sequence[Sequence[Trial]]) -> Expected | None:
        """Return what is expected at a scale by the trials of each of the first ones; None where none is complete."""
        assert self.settings.costs is not None
        doublings = [math.log2(cost / self.settings.costs[0]) for cost in self.settings.costs]
        return expect(self._inner, known, doublings, doublings[scale - 1], doublings[-1], self.settings.elite)
