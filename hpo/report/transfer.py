"""What trials at several scales say together: where the best of each hyperparameter lies, and how loss falls with cost.

Scores of different scales do not compare: everything here is of each scale's own best trials.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from hpo.config.goals import SCALE
from hpo.config.study_config import StudyConfig
from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.drawing.shift import Place, Shift, elite, fit_shift, from_unit, place_of, ranked_points
from hpo.engine.strategies.ladder import Ladder
from hpo.trials.space.dimensions import Choices, Dimension, Range
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial

# The share of a scale's trials that are its best, where the strategy is not a ladder, which says it.
_ELITE = 0.25
FEWEST_SCALES = 4


@dataclass(frozen=True)
class Law:
    """loss = factor * cost^-exponent, through the best losses of the scales below the target, and what it predicts.

    Cost is relative to the first scale. `low` and `high` are the ends of the 95 % interval of the target's best loss.
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
        changes: of the configuration, of each scale, the smallest first.
        known_costs: of a training at each scale, in any unit; None where trials tell them.
        elite: the share of a scale's trials that are its best.
        is_grid: whether every point was to be trained at every scale.
    """

    space: Space
    changes: Sequence[Mapping[str, Any]]
    trials: Sequence[Trial]
    known_costs: Sequence[float] | None = None
    elite: float = _ELITE
    is_grid: bool = False

    @classmethod
    def of(cls, config: StudyConfig, space: Space, trials: Sequence[Trial]) -> Self | None:
        """Return the trials of a study by scale; None for one without scales."""
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
        """The complete trials of each scale, from best to worst, one of each point; see `ranked_points`."""
        return [ranked_points(trials) for trials in self.by_scale]

    @cached_property
    def costs(self) -> list[float | None]:
        """The cost of a training at each scale, relative to the first; None where that is not known."""
        means = self.known_costs or self._told_costs or self._means([t.seconds for t in self.trials])
        first = means[0]
        return [cost / first if cost and first else None for cost in means]

    @cached_property
    def _told_costs(self) -> Sequence[float | None]:
        """The mean cost of a trial at each scale, on the study's clock; empty where it is the same at all of them."""
        means = self._means([t.total_cost for t in self.trials])
        return means if len({cost for cost in means if cost is not None}) > 1 else ()

    def _means(self, costs: Sequence[float | None]) -> Sequence[float | None]:
        """Return the mean of what each complete trial cost, by scale; None where none is there."""
        by_number = dict(zip([t.number for t in self.trials], costs, strict=True))
        means: list[float | None] = []
        for trials in self.ranked:
            there = [cost for t in trials if (cost := by_number[t.number]) is not None]
            means.append(math.fsum(there) / len(there) if there else None)
        return means

    @cached_property
    def cost_shares(self) -> list[float] | None:
        """The share of the search's cost at each scale, on the study's clock, else by the costs of the scales."""
        if self._told_costs:
            return shares([math.fsum(t.total_cost for t in trials) for trials in self.by_scale])
        trainings = [sum(len(t.outcomes) for t in trials) for trials in self.by_scale]
        if any(cost is None and count for cost, count in zip(self.costs, trainings, strict=True)):
            return None
        return shares([count * (cost or 0.0) for cost, count in zip(self.costs, trainings, strict=True)])

    @property
    def second_shares(self) -> list[float] | None:
        """The share of the seconds of all trainings at each scale."""
        return shares([math.fsum(t.seconds for t in trials) for trials in self.by_scale])

    @property
    def dimensions(self) -> list[Dimension]:
        """Those that were searched, without the scale."""
        return [d for d in self.space.dimensions if d.key != SCALE]

    @property
    def ordered(self) -> list[Dimension]:
        """Those whose values have an order, and more than one."""
        return [
            d for d in self.dimensions if isinstance(d, Range) or (not isinstance(d, Choices) and len(d.values) > 1)
        ]

    def places(self, dimension: Dimension) -> list[Place | None]:
        """Return where the best values of an ordered dimension lie at each scale, as the ladder sees them."""
        return [place_of(dimension, elite(ranked, self.elite)) for ranked in self.ranked]

    def shift(self, dimension: Dimension) -> Shift | None:
        """Return how the best moves with cost; None where too few trials tell it. See `fit_shift`."""
        known = [(ranked, math.log2(cost)) for ranked, cost in zip(self.ranked, self.costs, strict=True) if cost]
        if not known:
            return None
        ranked, doublings = zip(*known, strict=True)
        return fit_shift(dimension, self.dimensions, ranked, doublings)

    @property
    def no_law(self) -> str | None:
        """Why no loss at the target is predicted; None where it is."""
        below = [ranked[0] for ranked in self.ranked[:-1] if ranked]
        if self.target < FEWEST_SCALES or len(below) < FEWEST_SCALES - 1:
            done = f", and {len(below)} of {self.target - 1} below the target have a score"
            return (
                f"a power law of loss over cost takes {FEWEST_SCALES} scales or more; there are {self.target}"
                f"{done * (self.target >= FEWEST_SCALES)}"
            )
        if any(trial.loss != trial.score or trial.loss <= 0 for trial in below):
            return "a power law is one of a loss, which is above 0 and minimized; this metric is not"
        if None in self.costs[:-1] or self.costs[-1] is None:
            return "the cost of a training at each scale, the target with it, is not known"
        if len(set(self.costs)) < self.target:
            return "trainings of different scales cost the same"
        return None

    @cached_property
    def law(self) -> Law | None:
        """The power law of loss over cost by the scales below the target; None where `no_law` says why.

        Its two numbers are those of a straight line through the logarithms; a third, the loss that no cost removes,
        cannot be told from so few scales. The interval is that of one more observation, by Student's t.

        Source: of the power law, Kaplan et al. 2020, "Scaling laws for neural language models", equation 1.3.
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
    """Return the best point at the target that a ladder expects by the scales below it; None of other strategies."""
    made = make_strategy(strategy, scale_results.space, seed)
    if not isinstance(made, Ladder):
        return None
    below = [[trial.within_scale for trial in trials] for trials in scale_results.by_scale[:-1]]
    expected = made.expected(scale_results.target, below)
    return None if expected is None else expected.point


def shares(spent: Sequence[float]) -> list[float] | None:
    """Return the parts of a whole, which sum to 1; None where it is 0."""
    whole = math.fsum(spent)
    return [part / whole for part in spent] if whole else None


def value_at(dimension: Dimension, place: float) -> Any:
    """Return the value at a place, a number of a range without its rounding."""
    if isinstance(dimension, Range) and not dimension.integer:
        low, high = dimension.low, dimension.high
        return low * (high / low) ** place if dimension.log else low + place * (high - low)
    return from_unit(dimension, place)


def span_of(dimension: Dimension) -> float:
    """Return how far it is from one end to the other: in logarithms where it has these, or in values."""
    if not isinstance(dimension, Range):
        return float(len(dimension.values))
    # As `to_unit` has it, where whole numbers reach half a number beyond the ends.
    half = 0.5 * dimension.integer
    low, high = dimension.low - half, dimension.high + half
    return math.log(high / low) if dimension.log else high - low
