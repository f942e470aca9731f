"""How sure scores on the test part are: their intervals, and those of the differences from the default's."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from hpo.study.basis.bounds import is_share
from hpo.trials.estimate import Estimate, bootstrap_interval, wilson_interval
from hpo.trials.reported_values import number

_ROUNDING = 1e-4  # of a metric against the mean of its scores by example: sums in single precision differ by so much


@dataclass(frozen=True)
class Scored:
    """What a model has on the test part: its metrics, and the objective's `scores_by_example`."""

    metrics: Mapping[str, float]
    by_example: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """The examples of the test part, as a sample of all that there could be."""

    size: int
    method: Mapping[str, Any] | None = None  # what `describe_method` returned
    is_grouped: bool = False  # whether `describe_data` puts them in groups, so that they are not independent

    def estimates(self, scored: Scored) -> dict[str, Estimate]:
        """Return each metric with its interval: Wilson's of a share, else the bootstrap of its scores by example."""
        return {name: self._estimate(value, name, scored) for name, value in scored.metrics.items()}

    def differences(self, scored: Scored, other: Scored) -> dict[str, Estimate]:
        """Return each metric less the other model's, with the bootstrap interval of the paired scores by example."""
        both = {name: (value, other.metrics[name]) for name, value in scored.metrics.items() if name in other.metrics}
        return {name: self._bootstrap(ours - theirs, name, scored, other) for name, (ours, theirs) in both.items()}

    def _estimate(self, value: float, name: str, scored: Scored) -> Estimate:
        if is_share(self.method, name) and 0 <= value <= 1 and not self.is_grouped:
            return Estimate(value, *wilson_interval(value, self.size), self.size, "score interval of Wilson 1927")
        return self._bootstrap(value, name, scored)

    def _bootstrap(self, value: float, name: str, *models: Scored) -> Estimate:
        """Return the estimate of the first model's metric, less the second's where there are two."""
        scores = [self._scores(scored, name, len(models)) for scored in models]
        if (note := next((why for why in scores if isinstance(why, str)), None)) is not None:
            return Estimate(value, n=self.size, note=note)
        values = [first - sum(second) for first, *second in zip(*scores, strict=True)]
        if math.isclose(min(values), max(values), abs_tol=1e-12):
            return Estimate(value, n=self.size, note="all examples have the same, which shows no spread")
        return Estimate(value, *bootstrap_interval(values), self.size, "percentile bootstrap over the examples")

    def _scores(self, scored: Scored, name: str, num_models: int) -> Sequence[Any] | str:
        """Return a metric's score of each example, or why there is none."""
        if self.is_grouped:
            return "the examples are in groups, so they are not independent"
        if name not in scored.by_example:
            share = ", or `shares` of describe_method where it is a share of independent examples (0 to 1)"
            return f"`scores_by_example` from the objective gives one{share if num_models == 1 else ''}"
        listed, value = scored.by_example[name], scored.metrics[name]
        scores: list[Any] = [*map(number, listed)] if isinstance(listed, Iterable) else []
        if len(scores) != self.size or None in scores:
            return f"scores_by_example must have a finite number for each of {self.size:,} examples"
        mean = math.fsum(scores) / self.size
        if not math.isclose(mean, value, rel_tol=_ROUNDING, abs_tol=1e-9):
            return f"it must be the mean of its scores_by_example, which is {mean:.6g}"
        return scores


@dataclass(frozen=True)
class ScoresOnTest:
    """What `hpo test` found, by metric."""

    metrics: Mapping[str, Estimate]  # the winner's
    default: Mapping[str, Estimate]  # the default configuration's; empty where it has none
    difference: Mapping[str, Estimate]  # the winner's less the default's

    @classmethod
    def of(cls, test: Mapping[str, Any]) -> Self:
        """Return what test.json, or the report's part of it, has; that of a published study may have no intervals."""
        difference = {name: Estimate(**each) for name, each in test.get("difference", {}).items()}
        return cls(_estimates(test), _estimates(test["default"] or {}), difference)


def _estimates(scored: Mapping[str, Any]) -> dict[str, Estimate]:
    known, metrics = scored.get("estimates", {}), scored.get("metrics", {})
    return {name: Estimate(**known.get(name, {"value": value})) for name, value in metrics.items()}
