"""The ladder: a search at several scales, from the smallest scale to the target.

The ladder tries many points at the smallest scale, and fewer points at each larger scale. The points at a larger scale
are near the point that the ladder expects to be the best one at that scale.
"""

import math
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, PositiveFloat, ValidationError

from hpo.config.goals import SCALE
from hpo.config.study_config import explain
from hpo.engine.strategies.asha import AshaSettings
from hpo.engine.strategies.drawing.draws import draw_stratified
from hpo.engine.strategies.drawing.expected import Expected, expect
from hpo.engine.strategies.halving import HalvingSettings, SuccessiveHalvingSettings
from hpo.engine.strategies.strategy import MOST, Learns, Settings, Strategy, generator
from hpo.errors import ConfigError, HpoError
from hpo.trials.history import History
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Proposal, Trial

HALVINGS: Mapping[str, type[HalvingSettings]] = {"asha": AshaSettings, "successive_halving": SuccessiveHalvingSettings}
"""The settings classes of asha and successive halving, by the strategy's name.
A ladder with one of these strategies as `first` trains most points of the smallest scale only partly."""

# The cost of asha divided by the cost of halving with the same number of points. Asha costs more, because it also
# continues trials that are among the best only for a while, and because its later points are better (benchmarks/ladder
# measured 1.5 with 39 points and with 63).
_ASHA = 1.5


class LadderSettings(Settings):
    """Settings of the ladder, described in conf/strategy/ladder.yaml."""

    first: Mapping[str, Any]
    trials: int = Field(ge=1, le=MOST)
    budget: PositiveFloat | None
    elite: float = Field(gt=0, le=1)
    costs: list[PositiveFloat] | None
    cost_ratio: float = Field(gt=0, le=1)
    max_amount: int | None = Field(ge=1, le=MOST)

    @property
    def costs_of_points(self) -> list[float]:
        """The cost of a point at each scale, divided by the cost of a full training at the target scale.

        If `first` is asha or successive halving, the cost at the first scale is an average, because most points are
        trained only in part.
        """
        assert self.costs is not None
        shares = [cost / self.costs[-1] for cost in self.costs]
        if (halving := HALVINGS.get(self.first.get("name", ""))) is not None:
            settings = halving.model_validate(dict(self.first))
            shares[0] *= settings.share_of_training(settings.num_halvings)
            shares[0] *= _ASHA if isinstance(settings, AshaSettings) else 1.0
        return shares

    @property
    def planned(self) -> tuple[int, ...]:
        """The number of points at each scale, at least 1.

        The first scale has `trials` points. At each larger scale, the total cost of the points is about `cost_ratio`
        times the total cost at the scale before.
        """
        costs = self.costs_of_points
        return tuple(
            max(1, round(self.trials * costs[0] / cost * self.cost_ratio**place)) for place, cost in enumerate(costs)
        )

    def within_budget(self) -> tuple[Self, int]:
        """Return two values: the settings with the largest `trials` that `budget` allows, and the number of all trials.

        The setting `trials` counts the points at the first scale. The number of all trials includes further trials at
        the target scale, which use the rest of the budget.

        Raises:
            ConfigError: the budget is too small for one trial at each scale.
        """
        costs, budget = self.costs_of_points, self.budget
        assert budget is not None
        for trials in range(min(MOST, int(budget / costs[0])), 0, -1):
            plan = self.model_copy(update={"trials": trials, "budget": None})
            left = budget - sum(map(operator.mul, plan.planned, costs))
            if left >= 0:
                return plan, sum(plan.planned) + int(left)
        raise ConfigError(
            f"strategy.budget: must be at least {math.fsum(costs):.3g} to allow a trial at each scale, given "
            f"{budget:g}; the unit is the cost of a full training at the target scale"
        )


@dataclass(frozen=True)
class Ladder:
    """Search from the smallest scale to the target, in windows around the best point found at smaller scales.

    At the smallest scale, another strategy (the setting `first`) searches `trials` points. If `first` is a form of
    successive halving, it also continues the best of these points. Each larger scale gets one or more full trainings.
    The total cost at a scale is about `cost_ratio` times the total cost at the scale before.

    The ladder chooses the points of a scale when the scale before has ended. The first point of a scale is the expected
    best point, and the other points are spread over windows around it. To predict this point and the windows, the
    ladder extrapolates how the best values move from scale to scale. The more certain these moves are, the narrower the
    windows are (see `expect`). After the last planned trial, the ladder draws more points at the target, one at a time,
    from the windows around the best point there.

    A failed trial is never the best. If all trials so far have failed, the points of the next scale are spread over the
    whole space.

    Source: for the windows, see `ShiftingWindow`; the idea to search small scales first is from Yang et al. 2021,
    "Tensor programs V", algorithm 1, whose ladder has two scales and one trial at the target.

    Example: with three scales, costs per training of 1, 4, 16, `trials: 24` and `cost_ratio: 0.5`, there are 24 trials
    at the first scale, then 3 at the second, then 1 at the target. The 3 trials cost 12, half of 24. Half of 12
    is too little for a trial at the target, but each scale gets at least one trial.
    """

    REVISION: ClassVar[int] = 1

    settings: LadderSettings
    space: Space
    seed: int

    def __post_init__(self) -> None:
        if SCALE not in self.space.keys:
            raise ConfigError(
                "strategy: ladder needs scales; list at least two in study.scales, from the smallest to the target"
            )
        costs = self.settings.costs
        if costs is None:
            raise ConfigError(
                "strategy.costs: must be given, because the costs cannot be computed; give the cost of a training "
                "at each scale, such as [1, 4, 16]"
            )
        if len(costs) != self._target or any(map(operator.ge, costs, costs[1:])):
            raise ConfigError(
                f"strategy.costs: must be {self._target} ascending numbers, one per scale, given {list(costs)}; "
                f"correct them, or list study.scales from the cheapest to the most expensive"
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
        """The number of points planned at each scale, limited to the size of the space."""
        return tuple(min(count, self._inner.size or count) for count in self.settings.planned)

    @property
    def announcement(self) -> str:
        """One line of text that describes the trials at all scales."""
        counts = ", ".join(map(str, self.counts))
        rest = "then the rest of the budget at the target; the smallest scale uses"
        return f"ladder: {counts} trials from the smallest scale to the target, {rest} {self._first.announcement}"

    @property
    def learns(self) -> Learns:
        """When the ladder learns from results.

        The value is `by_round` if the strategy of the smallest scale (`first`) learns by rounds, else `by_trial`.
        """
        return "by_round" if self._first.learns == "by_round" else "by_trial"

    @property
    def refuses_several(self) -> str:
        """Why the ladder cannot search with several metrics or with a limit."""
        return "predicts the hyperparameters that are best for a single metric"

    @cached_property
    def _inner(self) -> Space:
        """The space of the points at a single scale, without the dimension of the scale."""
        return replace(self.space, dimensions=tuple(d for d in self.space.dimensions if d.key != SCALE), first=())

    @cached_property
    def _first(self) -> Strategy:
        # Import here, because that module imports this one.
        from hpo.engine.strategies import make_strategy

        try:
            return make_strategy(self.settings.first, self._inner, self.seed)
        except (HpoError, ValidationError) as error:
            text = explain(error, "strategy.") if isinstance(error, ValidationError) else str(error)
            raise ConfigError(text.replace("strategy.", "strategy.first.")) from error

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Proposal]:
        """Return the next points of the current scale; no points while trials of an earlier scale are pending."""
        ended = [[trial.within_scale for trial in known if trial.point[SCALE] == scale] for scale in self._scales]
        running = [[trial.within_scale for trial in pending if trial.point[SCALE] == scale] for scale in self._scales]
        rng = generator(self.seed, known, pending)
        # If trials at several scales were imported, begin at the largest of these scales.
        start = max((trial.scale for trial in known if trial.number < 0), default=1)
        for scale, count in enumerate(self.counts, start=1):
            trials = (*ended[scale - 1], *running[scale - 1])
            num_points = sum(trial.continues is None and trial.retry_of is None for trial in trials)
            missing = 0 if scale < start else count - num_points
            if scale == start == 1 and (missing > 0 or self.settings.max_amount is not None):
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
        """Return what the strategy `first` proposes: all trials that it continues, and up to `missing` new points."""
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
        """Return up to `count` untried points at a scale: the expected best point, and others around it."""
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
            # If the windows hold too few untried points, draw the rest from the whole space.
            if len(points) < count:
                drawn = draw_stratified(searched, rng, taken, count - len(points))
                points, taken = [*points, *drawn], taken | {*map(point_key, drawn)}
        return [{SCALE: scale, **point} for point in points]

    def expected(self, scale: int, known: Sequence[Sequence[Trial]]) -> Expected | None:
        """Return the expected best point at a scale, and the part of the space to search around this point.

        Return None if no trial is complete. `known` holds the trials of each scale, the smallest scale first.
        """
        assert self.settings.costs is not None
        doublings = [math.log2(cost / self.settings.costs[0]) for cost in self.settings.costs]
        return expect(self._inner, known, doublings, doublings[scale - 1], doublings[-1], self.settings.elite)
