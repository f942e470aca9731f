"""Checks the values that an objective reports or returns."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from hpo.errors import HpoError

# Squares of larger numbers, in deviations and tests, exceed the range of floats.
LARGEST = 1e100
_MOST_SECONDS = 1e10  # three centuries
LONGEST_TEXT = 1_000
"""The most characters of a text that is stored with a trial."""
# Names in a point of a curve that belong to the point, not to the result.
_NOT_OF_RESULTS = ("epoch", "step", "units", "seconds")


class NotReportedError(HpoError, ValueError):
    """A training has reported named values without its metric, so no training of this objective will report it."""


def number(value: Any) -> int | float | None:
    """Return a finite number of at most `LARGEST`, also of NumPy or torch, as int or float; None for all else."""
    if hasattr(value, "item") and not isinstance(value, int | float):
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):
            return None  # It is an array of several values.
    if not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return None
    return int(value) if isinstance(value, int) else float(value)


def numbers(reported: Mapping[Any, Any]) -> dict[str, int | float]:
    """Return the numbers of a point or a result by name, without other values."""
    return {str(name): checked for name, value in reported.items() if (checked := number(value)) is not None}


def texts(reported: Mapping[Any, Any]) -> dict[str, str]:
    """Return the texts of a result by name."""
    return {str(name): value for name, value in reported.items() if isinstance(value, str)}


def flat(reported: Mapping[Any, Any]) -> dict[str, Any]:
    """Return nested values with flat names: `{"val": {"loss": 1}}` becomes `{"val/loss": 1}`.

    Raises:
        ValueError: two values have the same flat name.
    """
    values: dict[str, Any] = {}
    for name, value in reported.items():
        inner = {f"{name}/{key}": each for key, each in flat(value).items()} if isinstance(value, Mapping) else None
        new = {str(name): value} if inner is None else inner
        if not values.keys().isdisjoint(new):
            refuse_twice([*values, *new])
        values |= new
    return values


def refuse_twice(names: Iterable[str]) -> None:
    """Raise ValueError if a name occurs twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"the objective returns or reports several values as '{twice[0]}'; give each its own name")


def of_curve(
    points: Sequence[Mapping[str, Any]],
    metric: str,
    curve_score: Literal["best", "last"],
    is_max: bool,
    named: Collection[str] = (),
) -> Any:
    """Return the best point of a curve (the first of equals), or its last; None without points.

    `named` holds names that were reported without a valid number.

    Raises:
        NotReportedError: the curve has other values, and the metric is neither in it nor in `named`.
        ValueError: the metric was never a valid number.
    """
    scored = [point for point in points if metric in point]
    if not points:
        return None
    if not scored:
        names = [*dict.fromkeys(name for point in points for name in point if name not in _NOT_OF_RESULTS)]
        is_named = metric in named
        raise (ValueError if is_named or not names else NotReportedError)(
            f"the objective returned nothing and reported no number as '{metric}', but "
            f"{', '.join(names) or 'nothing else'}: report '{metric}', or set `metric` to a reported name"
        )
    best = max if is_max else min
    point = scored[-1] if curve_score == "last" else best(scored, key=lambda point: point[metric])
    return {name: value for name, value in point.items() if name not in _NOT_OF_RESULTS}


def seconds(value: Any) -> float | None:
    """Return a duration in seconds; None if it is no valid one."""
    checked = number(value)
    return float(checked) if checked is not None and 0 <= checked <= _MOST_SECONDS else None


def result(
    returned: Any, names: Sequence[str], num_metrics: int = 1, num_needed: int | None = None
) -> dict[str, int | float]:
    """Return by name the numbers that an objective returned.

    Args:
        returned: a mapping; the value of the only metric; or the values of several metrics in their order.
        names: the metrics in their order, then further names that the objective must return.
        num_metrics: the number of metrics in `names`.
        num_needed: how many of `names` must be there; None = all.

    Raises:
        NotReportedError: other names are there, and a needed one is not.
        ValueError: a needed value is missing or not a valid number.
    """
    metric = names[0]
    if number(returned) is not None or isinstance(returned, float):
        returned = {metric: returned}
    elif num_metrics > 1 and isinstance(returned, tuple | list):
        returned = _by_metric(returned, names[:num_metrics])
    if returned is None:
        raise ValueError(
            f"the objective must return a number or a dict of numbers, given None; return the score, or report it: "
            f"trial.report({metric}=...)"
        )
    if not isinstance(returned, Mapping):
        raise ValueError(f"the objective must return a number or a dict of numbers, given {returned!r}")
    by_name = numbers(returned)
    for name in names[:num_needed]:
        if name not in by_name:
            is_named = name in returned or not returned
            raise (ValueError if is_named else NotReportedError)(_why_no_score(returned, name))
    return by_name


def _by_metric(returned: Sequence[Any], metrics: Sequence[str]) -> dict[str, Any]:
    """Return the values of several metrics by name; raise ValueError if their number is not that of the metrics."""
    if len(returned) != len(metrics):
        raise ValueError(
            f"the objective must return one number for each of {', '.join(metrics)}, given {len(returned)}"
        )
    return dict(zip(metrics, returned, strict=True))


def _why_no_score(returned: Mapping[Any, Any], metric: str) -> str:
    if metric not in returned:
        return f"the objective returned no '{metric}'; it returned: {', '.join(map(str, returned)) or 'nothing'}"
    score = returned[metric]
    if isinstance(score, float) and not math.isfinite(score):
        return f"the objective's '{metric}' is {score}: the training diverged, or no example was scored"
    if isinstance(score, int | float):
        return f"the objective's '{metric}' must be between -{LARGEST:g} and {LARGEST:g}: the training diverged"
    return f"the objective's '{metric}' must be a number, given {score!r}"
