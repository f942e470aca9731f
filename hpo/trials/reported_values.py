"""Checks the numbers that an objective reports, when they arrive."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from hpo.errors import HpoError

# Squares of larger numbers, in deviations and tests, exceed the range of floats.
LARGEST = 1e100
_MOST_SECONDS = 1e10  # three centuries: longer times were not measured
LONGEST_TEXT = 1_000
"""Characters of a text that are kept with a trial."""
# Say of a point where it is.
_NOT_OF_RESULTS = ("epoch", "step", "units", "seconds")


class NotReportedError(HpoError, ValueError):
    """A training has reported by name, and not what it is scored by: no training of that objective will."""


def number(value: Any) -> int | float | None:
    """Return a finite number up to `LARGEST`, also of NumPy or torch, as a plain int or float; None for all else."""
    if hasattr(value, "item") and not isinstance(value, int | float):
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):
            return None  # An array of several values.
    if not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return None
    return int(value) if isinstance(value, int) else float(value)


def numbers(reported: Mapping[Any, Any]) -> dict[str, int | float]:
    """Return the numbers of a point or a result by name; other values are left out, as a gap in a learning curve."""
    return {str(name): checked for name, value in reported.items() if (checked := number(value)) is not None}


def texts(reported: Mapping[Any, Any]) -> dict[str, str]:
    """Return the texts of a result by name."""
    return {str(name): value for name, value in reported.items() if isinstance(value, str)}


def flat(reported: Mapping[Any, Any]) -> dict[str, Any]:
    """Return groups of values by one name each: `{"val": {"loss": 1}}` is `{"val/loss": 1}`.

    ValueError where two have the same.
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
    """Raise ValueError where values that an objective gives have one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"the objective gives several values the name '{twice[0]}'; give each its own")


def of_curve(
    points: Sequence[Mapping[str, Any]],
    metric: str,
    takes: Literal["best", "last"],
    is_max: bool,
    named: Collection[str] = (),
) -> Any:
    """Return the best (of equals the first) or last point of a curve; None for none.

    ValueError without the metric; NotReportedError where it is not among the `named` either, which had no number.
    """
    scored = [point for point in points if metric in point]
    if not points:
        return None
    if not scored:
        names = [*dict.fromkeys(name for point in points for name in point if name not in _NOT_OF_RESULTS)]
        is_named = metric in named
        raise (ValueError if is_named or not names else NotReportedError)(
            f"the objective returned nothing, and reported no '{metric}' that is a number, but "
            f"{', '.join(names) or 'nothing else'}: report '{metric}', or name in `metric` what is reported"
        )
    best = max if is_max else min
    point = scored[-1] if takes == "last" else best(scored, key=lambda point: point[metric])
    return {name: value for name, value in point.items() if name not in _NOT_OF_RESULTS}


def seconds(value: Any) -> float | None:
    """Return a duration; None for an impossible one."""
    checked = number(value)
    return float(checked) if checked is not None and 0 <= checked <= _MOST_SECONDS else None


def result(
    returned: Any, names: Sequence[str], num_metrics: int = 1, num_needed: int | None = None
) -> dict[str, int | float]:
    """Return the numbers that an objective returned: a dict; the metric alone; or several metrics in their order.

    `names` are the metrics in their order, then what has a limit; ValueError without one of the first `num_needed`
    (None = all); NotReportedError where others are named, and that is not.
    """
    metric = names[0]
    if number(returned) is not None or isinstance(returned, float):
        returned = {metric: returned}
    elif num_metrics > 1 and isinstance(returned, tuple | list):
        returned = _by_metric(returned, names[:num_metrics])
    if returned is None:
        raise ValueError(
            f"the objective must return a number or a dict of numbers, it returned None; return the score, or report "
            f"it: trial.report({metric}=...)"
        )
    if not isinstance(returned, Mapping):
        raise ValueError(f"the objective must return a number or a dict of numbers, it returned {returned!r}")
    by_name = numbers(returned)
    for name in names[:num_needed]:
        if name not in by_name:
            is_named = name in returned or not returned
            raise (ValueError if is_named else NotReportedError)(_why_no_score(returned, name))
    return by_name


def _by_metric(returned: Sequence[Any], metrics: Sequence[str]) -> dict[str, Any]:
    """Return the values of several metrics by name; ValueError for more or fewer than the metrics."""
    if len(returned) != len(metrics):
        raise ValueError(
            f"the objective must return one number for each of {', '.join(metrics)}, it returned {len(returned)}"
        )
    return dict(zip(metrics, returned, strict=True))


def _why_no_score(returned: Mapping[Any, Any], metric: str) -> str:
    if metric not in returned:
        return f"the objective returned no '{metric}'; it returned: {', '.join(map(str, returned)) or 'nothing'}"
    score = returned[metric]
    if isinstance(score, float) and not math.isfinite(score):
        return f"the objective's '{metric}' is {score}: the training diverged or nothing was scored"
    if isinstance(score, int | float):
        return f"the objective's '{metric}' must lie between -{LARGEST:g} and {LARGEST:g}: the training diverged"
    return f"the objective's '{metric}' must be a number, it is {score!r}"
