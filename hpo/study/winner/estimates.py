"""Confidence intervals of test scores, and of their differences from the default configuration's scores."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hpo.errors import first_line
from hpo.study.basis.bounds import is_share
from hpo.trials.estimate import Estimate, bootstrap_interval, wilson_interval

# The accepted relative difference between a metric and the value computed from its `scores_by_example`. The difference
# comes from sums in single precision.
_ROUNDING = 1e-4
# More numbers than this (examples times numbers of an example) take minutes to resample.
_MOST_NUMBERS = 20_000_000

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scored:
    """What the objective returns for a model on the test split.

    Attributes:
        metrics: the metrics by name.
        by_example: by metric, the `scores_by_example`: one number or row of numbers per example, or the reason why
            there are none.
        of_sums: by metric, the function in `score_of_sums`, which computes the metric from sums over examples.
    """

    metrics: Mapping[str, float]
    by_example: Mapping[str, Any] = field(default_factory=dict)
    of_sums: Mapping[str, Callable[[Numbers], Numbers]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """The examples of the test split, as a random sample.

    Attributes:
        size: the number of examples.
        method: the result of the objective's `describe_method`.
        is_grouped: whether `describe_data` puts the examples into groups; the examples are then not independent.
    """

    size: int
    method: Mapping[str, Any] = field(default_factory=dict)
    is_grouped: bool = False

    def estimates(self, scored: Scored) -> dict[str, Estimate]:
        """Return each metric with a 95 % interval.

        A share gets Wilson's interval; any other metric gets a bootstrap interval over the examples. If there is no
        interval, the estimate's note says why.
        """
        return {name: self._estimate(value, name, scored) for name, value in scored.metrics.items()}

    def differences(self, scored: Scored, other: Scored) -> dict[str, Estimate]:
        """Return, for each metric that both models have, `scored` minus `other`, with a 95 % bootstrap interval.

        Each resample has the same examples for both models. If there is no interval, the estimate's note says why.
        """
        both = {name: (value, other.metrics[name]) for name, value in scored.metrics.items() if name in other.metrics}
        return {name: self._bootstrap(ours - theirs, name, scored, other) for name, (ours, theirs) in both.items()}

    def _estimate(self, value: float, name: str, scored: Scored) -> Estimate:
        if is_share(self.method, name) and 0 <= value <= 1 and not self.is_grouped:
            return Estimate(value, *wilson_interval(value, self.size), self.size, "Wilson interval for a share (1927)")
        return self._bootstrap(value, name, scored)

    def _bootstrap(self, value: float, name: str, *models: Scored) -> Estimate:
        """Return the estimate of a model's metric or, for two models, of the difference of their metrics."""
        found = [self._of_counts(scored, name, len(models)) for scored in models]
        if (note := next((why for why in found if isinstance(why, str)), None)) is not None:
            return Estimate(value, n=self.size, note=note)
        first, *second = (score for score in found if not isinstance(score, str))
        try:
            low, high = bootstrap_interval(
                lambda counts: first(counts) - sum(other(counts) for other in second), self.size
            )
        except Exception as error:  # noqa: BLE001 -- the function is the user's; its fault must not lose the test scores
            note = f"the function for {name} in score_of_sums failed: {first_line(error)}"
            return Estimate(value, n=self.size, note=note)
        if not math.isfinite(low + high):
            return Estimate(value, n=self.size, note=f"{name} is not finite for some resamples of the examples")
        if math.isclose(low, high, abs_tol=1e-12):
            return Estimate(value, n=self.size, note="all resamples have the same value, so there is no spread")
        return Estimate(value, low, high, self.size, "percentile bootstrap over the examples")

    def _of_counts(self, scored: Scored, name: str, num_models: int) -> Callable[[Numbers], Numbers] | str:
        """Return a function that computes a model's metric for each resample, or the reason why there is no function.

        The function's argument says how often each resample draws each example, with shape (resamples, examples).
        """
        if self.is_grouped:
            return "the examples are in groups, so they are not independent"
        if name not in scored.by_example:
            share = f", and `shares` of describe_method does not list {name}" if num_models == 1 else ""
            return f"the objective returns no `scores_by_example` for {name}{share}"
        if isinstance(why := scored.by_example[name], str):
            return why
        rows, score = _numbers(scored.by_example[name]), scored.of_sums.get(name, _ratio)
        if rows is None or len(rows) != self.size:
            return f"scores_by_example must have finite numbers for each of {self.size:,} examples"
        if rows.size > _MOST_NUMBERS:
            return f"a bootstrap over {rows.size:,} numbers would take too long (at most {_MOST_NUMBERS:,})"
        if rows.shape[1] == 1:
            rows = np.hstack([rows, np.ones_like(rows)])
        elif rows.shape[1] > 2 and name not in scored.of_sums:
            return (
                f"score_of_sums must have a function that computes {name} from sums over the examples, because "
                f"scores_by_example has {rows.shape[1]} values per example"
            )
        try:
            given, whole = scored.metrics[name], float(score(rows.sum(axis=0, keepdims=True))[0])
        except Exception as error:  # noqa: BLE001 -- the function is the user's; its fault must not lose the test scores
            return f"the function for {name} in score_of_sums failed: {first_line(error)}"
        if not math.isclose(whole, given, rel_tol=_ROUNDING, abs_tol=1e-9):
            return f"{name} ({given:.6g}) must equal the value from its scores_by_example ({whole:.6g})"
        return lambda counts: score(counts @ rows)


def _numbers(listed: Any) -> Numbers | None:
    """Return `listed` as an array with one row of finite numbers per example; None if this is not possible."""
    try:
        array = np.asarray(listed)
    except (TypeError, ValueError, RuntimeError):
        # Rows of different length, or a tensor that numpy cannot read.
        return None
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or not array.size or not np.isfinite(array).all():
        return None
    return array.reshape(len(array), -1).astype(np.float64)


def _ratio(sums: Numbers) -> Numbers:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[:, 0] / sums[:, 1])


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
