"""Confidence intervals of test scores, and of their differences from the default configuration's scores."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from hpo.study.basis.bounds import is_share
from hpo.trials.estimate import Estimate, bootstrap_interval, wilson_interval
from hpo.trials.reported_values import number

# The accepted relative difference between a metric and the mean of its scores by example, which comes from sums in
# single precision.
_ROUNDING = 1e-4


@dataclass(frozen=True)
class Scored:
    """A model's metrics on the test split, and the objective's `scores_by_example`."""

    metrics: Mapping[str, float]
    by_example: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """The examples of the test split, as a random sample.

    Attributes:
        size: the number of examples.
        method: the result of the objective's `describe_method`.
        is_grouped: whether `describe_data` groups the examples, so that they are not independent.
    """

    size: int
    method: Mapping[str, Any] | None = None
    is_grouped: bool = False

    def estimates(self, scored: Scored) -> dict[str, Estimate]:
        """Return each metric with an interval: Wilson's interval for a share, else a bootstrap of scores by example.

        An estimate without an interval has a note that says why.
        """
        return {name: self._estimate(value, name, scored) for name, value in scored.metrics.items()}

    def differences(self, scored: Scored, other: Scored) -> dict[str, Estimate]:
        """Return the difference of two models in each metric that both have, with a bootstrap interval.

        The bootstrap draws paired examples. An estimate without an interval has a note that says why.
        """
        both = {name: (value, other.metrics[name]) for name, value in scored.metrics.items() if name in other.metrics}
        return {name: self._bootstrap(ours - theirs, name, scored, other) for name, (ours, theirs) in both.items()}

    def _estimate(self, value: float, name: str, scored: Scored) -> Estimate:
        if is_share(self.method, name) and 0 <= value <= 1 and not self.is_grouped:
            return Estimate(value, *wilson_interval(value, self.size), self.size, "score interval of Wilson 1927")
        return self._bootstrap(value, name, scored)

    def _bootstrap(self, value: float, name: str, *models: Scored) -> Estimate:
        """Return the estimate of a model's metric or, for two models, of the difference of their metrics."""
        scores = [self._scores(scored, name, len(models)) for scored in models]
        if (note := next((why for why in scores if isinstance(why, str)), None)) is not None:
            return Estimate(value, n=self.size, note=note)
        values = [first - sum(second) for first, *second in zip(*scores, strict=True)]
        if math.isclose(min(values), max(values), abs_tol=1e-12):
            return Estimate(value, n=self.size, note="all examples have the same value, so there is no spread")
        return Estimate(value, *bootstrap_interval(values), self.size, "percentile bootstrap over the examples")

    def _scores(self, scored: Scored, name: str, num_models: int) -> Sequence[Any] | str:
        """Return a model's score for each example, or the reason why there are no such scores."""
        if self.is_grouped:
            return "the examples are in groups, so they are not independent"
        if name not in scored.by_example:
            share = ", or list it in `shares` of describe_method if it is a share of independent examples (0 to 1)"
            return f"return `scores_by_example` from the objective to get one{share if num_models == 1 else ''}"
        listed, value = scored.by_example[name], scored.metrics[name]
        scores: list[Any] = [*map(number, listed)] if isinstance(listed, Iterable) else []
        if len(scores) != self.size or None in scores:
            return f"scores_by_example must have a finite number for each of {self.size:,} examples"
        mean = math.fsum(scores) / self.size
        if not math.isclose(mean, value, rel_tol=_ROUNDING, abs_tol=1e-9):
            return f"the metric must be the mean of its scores_by_example, {mean:.6g}"
        return scores


@dataclass(frozen=True)
class ScoresOnTest:
    """The scores of a test evaluation, by metric.

    Attributes:
        metrics: the winner's scores.
        default: the default configuration's scores; empty if the default was not scored.
        difference: the winner's scores minus the default configuration's.
    """

    metrics: Mapping[str, Estimate]
    default: Mapping[str, Estimate]
    difference: Mapping[str, Estimate]

    @classmethod
    def of(cls, test: Mapping[str, Any]) -> Self:
        """Return the scores from the content of test.json, or from the report's test section.

        The scores of a published study may lack intervals.
        """
        difference = {name: Estimate(**each) for name, each in test.get("difference", {}).items()}
        return cls(_estimates(test), _estimates(test["default"] or {}), difference)


def _estimates(scored: Mapping[str, Any]) -> dict[str, Estimate]:
    known, metrics = scored.get("estimates", {}), scored.get("metrics", {})
    return {name: Estimate(**known.get(name, {"value": value})) for name, value in metrics.items()}
