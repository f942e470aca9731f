"""Results across scales: the best values of each hyperparameter by scale, and the power law of loss over cost.

Scores of different scales are not comparable, so all results here use each scale's own best trials.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from hpo.config.goals import SCALE
from hpo.config.study_config import StudyConfig
from hpo.engine.strategies.drawing.shift import Place, Shift, elite, fit_shift, place_of, ranked_points
from hpo.engine.strategies.ladder import Ladder, LadderSettings
from hpo.trials.space.dimensions import Choices, Dimension, Range
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial

# Default share of a scale's trials that count as its best; the setting `elite` of a ladder overrides it.
_ELITE = 0.25
FEWEST_SCALES = 4


@dataclass(frozen=True)
class Law:
    """The power law loss = factor * cost^-exponent, fitted to the best losses of the scales below the target.

    Cost is relative to the first scale. `predicted` is the target's best loss, with the 95 % interval `low` to `high`.
    """

    factor: float
    exponent: float
    predicted: float
    low: float
    high: float

    def at(self, cost: float) -> float:
        """Return the loss at a cost."""
        return float(self.factor * cost**-self.exponent)


@dataclass(frozen=True)
class ScaleResults:
    """The trials of a study by scale.

    Attributes:
        changes: the changes of the configuration by scale, the smallest scale first.
        known_costs: the cost of a training at each scale, in any unit; None = measured from the trials.
        elite: the share of a scale's trials that count as its best.
        is_grid: whether the study trains every point at every scale.
    """

    space: Space
    changes: Sequence[Mapping[str, Any]]
    trials: Sequence[Trial]
    known_costs: Sequence[float] | None = None
    elite: float = _ELITE
    is_grid: bool = False

    @classmethod
    def of(cls, config: StudyConfig, space: Space, trials: Sequence[Trial]) -> Self | None:
        """Return the trials of a study by scale; None for a study without scales."""
        changes, strategy = config.study.scales, config.strategy
        if changes is None or SCALE not in space.keys:
            return None
        is_grid = strategy.get("name") == "grid"
        return cls(space, changes, trials, strategy.get("costs"), strategy.get("elite", _ELITE), is_grid)

    @property
    def target(self) -> int:
        """The number of the last scale."""
        return len(self.changes)

    @cached_property
    def by_scale(self) -> list[list[Trial]]:
        """The trials of each scale."""
        return [[t for t in self.trials if t.scale == scale] for scale in range(1, self.target + 1)]

    @cached_property
    def ranked(self) -> list[list[Trial]]:
        """The complete trials of each scale from best to worst, one per point; see `ranked_points`."""
        return [ranked_points(trials) for trials in self.by_scale]

    @cached_property
    def costs(self) -> list[float | None]:
        """The cost of a training at each scale, relative to the first scale; None = not known."""
        means = self.known_costs or self._clock_costs or self._means([t.seconds for t in self.trials])
        first = means[0]
        return [cost / first if cost and first else None for cost in means]

    @cached_property
    def _clock_costs(self) -> Sequence[float | None]:
        """The mean cost of a trial at each scale on the study's clock; empty if all known means are equal."""
        means = self._means([t.total_cost for t in self.trials])
        return means if len({cost for cost in means if cost is not None}) > 1 else ()

    def _means(self, costs: Sequence[float | None]) -> Sequence[float | None]:
        """Return the mean cost of the ranked trials at each scale; `costs` has each trial's cost (None = unknown)."""
        by_number = dict(zip([t.number for t in self.trials], costs, strict=True))
        means: list[float | None] = []
        for trials in self.ranked:
            # Imported trials have negative numbers; this study did not pay for them.
            known = [cost for t in trials if t.number >= 0 and (cost := by_number[t.number]) is not None]
            means.append(math.fsum(known) / len(known) if known else None)
        return means

    @cached_property
    def cost_shares(self) -> list[float] | None:
        """The share of the search's cost at each scale; None if the costs are not known, or if there was no training.

        A scale's cost is the total cost of its trials on the study's clock. If a trial has the same mean cost at every
        scale, the clock does not show that larger scales are more expensive. In this case, a scale's cost is (the
        number of trainings at the scale) * (the scale's value in `costs`).
        """
        if self._clock_costs:
            return shares([math.fsum(t.total_cost for t in trials) for trials in self.by_scale])
        trainings = [sum(len(t.outcomes) for t in trials) for trials in self.by_scale]
        if any(cost is None and count for cost, count in zip(self.costs, trainings, strict=True)):
            return None
        return shares([count * (cost or 0.0) for cost, count in zip(self.costs, trainings, strict=True)])

    @property
    def second_shares(self) -> list[float] | None:
        """The share of all training seconds at each scale; None if there was no training."""
        return shares([math.fsum(t.seconds for t in trials) for trials in self.by_scale])

    @property
    def dimensions(self) -> list[Dimension]:
        """The searched dimensions without the scale."""
        return [d for d in self.space.dimensions if d.key != SCALE]

    @property
    def ordered(self) -> list[Dimension]:
        """The dimensions that have more than one value, and whose values have an order."""
        return [
            d for d in self.dimensions if isinstance(d, Range) or (not isinstance(d, Choices) and len(d.values) > 1)
        ]

    def places(self, dimension: Dimension) -> list[Place | None]:
        """Return the mean and the spread of the best trials' positions in an ordered dimension, for each scale.

        The list has one element per scale, the smallest scale first. The element is None if the best trials of the
        scale lack the dimension. The strategy `ladder` computes the same values.
        """
        return [place_of(dimension, elite(ranked, self.elite)) for ranked in self.ranked]

    def shift(self, dimension: Dimension) -> Shift | None:
        """Return how the best value of a dimension shifts with cost; see `fit_shift`.

        Return None if there are too few trials, or if too few scales have a known cost.
        """
        known = [(ranked, math.log2(cost)) for ranked, cost in zip(self.ranked, self.costs, strict=True) if cost]
        if not known:
            return None
        ranked, doublings = zip(*known, strict=True)
        return fit_shift(dimension, self.dimensions, ranked, doublings)

    @property
    def no_law(self) -> str | None:
        """The reason why the loss at the target is not predicted; None if the loss is predicted."""
        below = [ranked[0] for ranked in self.ranked[:-1] if ranked]
        if self.target < FEWEST_SCALES or len(below) < FEWEST_SCALES - 1:
            law = "a power law of loss over cost"
            if self.target < FEWEST_SCALES:
                return f"{law} needs at least {FEWEST_SCALES} scales; there are {self.target}"
            return (
                f"{law} needs complete trials at {FEWEST_SCALES - 1} or more scales below the target; this study has "
                f"complete trials at {len(below)}"
            )
        if any(trial.loss != trial.score or trial.loss <= 0 for trial in below):
            return "a power law needs a metric that is above 0 and minimized, unlike this one"
        if None in self.costs[:-1] or self.costs[-1] is None:
            return "the cost of a training is not known at every scale"
        if len(set(self.costs)) < self.target:
            return "trainings at different scales have the same cost"
        return None

    @cached_property
    def law(self) -> Law | None:
        """The loss as a power law of the cost, fitted to the scales below the target; None if `no_law` gives a reason.

        Factor and exponent come from a linear fit of the logarithm of the loss to the logarithm of the cost. The scales
        are too few to also fit a third number, the irreducible loss. `low` and `high` are the 95 % prediction interval
        of one new loss at the target's cost, by Student's t.

        Source: Kaplan et al. 2020, "Scaling laws for neural language models", equation 1.3, for the power law.
        """
        if self.no_law is not None:
            return None
        from scipy import stats  # here: it takes a while to load

        pairs = [(cost, ranked[0].loss) for cost, ranked in zip(self.costs[:-1], self.ranked, strict=False) if ranked]
        x, y = (np.log(np.array(each, dtype=float)) for each in zip(*pairs, strict=True))
        slope, start = map(float, np.polyfit(x, y, 1))
        assert self.costs[-1] is not None
        at, free = math.log(self.costs[-1]), len(x) - 2
        deviation = math.sqrt(float(((y - start - slope * x) ** 2).sum()) / free)
        away = (at - float(x.mean())) ** 2 / float(((x - x.mean()) ** 2).sum())
        half = float(stats.t.ppf(0.975, free)) * deviation * math.sqrt(1 + 1 / len(x) + away)
        low, middle, high = (math.exp(min(start + slope * at + end, 700.0)) for end in (-half, 0.0, half))
        return Law(math.exp(start), -slope, middle, low, high)


def expected_point(strategy: Mapping[str, Any], seed: int, scale_results: ScaleResults) -> Point | None:
    """Return the best point at the target, as a ladder predicts it from smaller scales.

    Return None if the strategy is no ladder, or if no trial at a smaller scale is complete.
    """
    if strategy.get("name") != "ladder":
        return None
    ladder = Ladder(LadderSettings.model_validate(dict(strategy)), scale_results.space, seed)
    below = [[trial.within_scale for trial in trials] for trials in scale_results.by_scale[:-1]]
    expected = ladder.expected(scale_results.target, below)
    return None if expected is None else expected.point


def shares(spent: Sequence[float]) -> list[float] | None:
    """Return each number divided by the sum of all; None if the sum is 0."""
    whole = math.fsum(spent)
    return [part / whole for part in spent] if whole else None


def value_at(dimension: Dimension, place: float) -> Any:
    """Return a dimension's value at a position from 0 to 1; in a range of real numbers the value is not rounded."""
    if isinstance(dimension, Range) and not dimension.integer:
        low, high = dimension.low, dimension.high
        return low * (high / low) ** place if dimension.log else low + place * (high - low)
    return dimension.from_unit(place)


def span_of(dimension: Dimension) -> float:
    """Return the size of a dimension: the length of its range, or the number of its values if it has no range.

    The length of a logarithmic range is the difference between the logarithms of its ends.
    """
    if not isinstance(dimension, Range):
        return float(len(dimension.values))
    # As in `to_unit`, whole numbers extend by 0.5 beyond the ends.
    half = 0.5 * dimension.integer
    low, high = dimension.low - half, dimension.high + half
    return math.log(high / low) if dimension.log else high - low
