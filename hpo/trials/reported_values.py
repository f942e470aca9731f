"""Checks the values that an objective reports or returns."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from hpo.errors import HpoError

# The largest number allowed. Deviations and tests need squares, and the square of a much larger number would exceed the
# range of floats.
LARGEST = 1e100
_MOST_SECONDS = 1e10  # three centuries
LONGEST_TEXT = 1_000
"""The largest number of characters of a text that is stored with a trial."""
# Names in a point of a learning curve that describe the point and are not part of a result.
_NOT_OF_RESULTS = ("epoch", "step", "units", "seconds")


class NotReportedError(HpoError, ValueError):
    """The values that a training reported or returned lack a needed name, such as the name of a metric.

    All other trainings of the objective would probably fail in the same way.
    """


def number(value: Any) -> int | float | None:
    """Return a number, also one of NumPy or torch, as an int or float.

    True and False become 1 and 0. Return None for any other value, and for numbers that are not finite or whose
    absolute value is above `LARGEST`.
    """
    value = plain(value)
    if not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return None
    return int(value) if isinstance(value, int) else float(value)


def plain(value: Any) -> Any:
    """Convert a single number of NumPy or torch, finite or not, to a Python number; return other values unchanged."""
    if hasattr(value, "item") and not isinstance(value, int | float):
        try:
            return value.item()
        except (TypeError, ValueError, RuntimeError):
            pass  # It is an array of several values.
    return value


def numbers(reported: Mapping[Any, Any]) -> dict[str, int | float]:
    """Return the numbers in a report or a result, by name; leave out values for which `number` returns None."""
    return {str(name): checked for name, value in reported.items() if (checked := number(value)) is not None}


def texts(reported: Mapping[Any, Any]) -> dict[str, str]:
    """Return the texts in a result, by name; leave out all other values."""
    return {str(name): value for name, value in reported.items() if isinstance(value, str)}


def note(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a dict of notes with each key as a text.

    Raises:
        TypeError: a value is neither a text nor a finite number, or its absolute value is above `LARGEST`.
    """
    for name, value in given.items():
        if not isinstance(value, str) and number(value) is None:
            raise TypeError(f"a note must be a finite number or a text, given {name}={value!r:.200}")
    return {str(name): value for name, value in given.items()}


def flat(reported: Mapping[Any, Any]) -> dict[str, Any]:
    """Flatten nested values: `{"val": {"loss": 1}}` becomes `{"val/loss": 1}`.

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
    """Return the values of a learning curve's best point, or of its last point; None if the curve has no points.

    The values leave out `epoch`, `step`, `units` and `seconds`.

    Args:
        points: the points of the curve.
        metric: the metric to compare; only points that have this metric count.
        curve_score: which point to return; of several best points, the first one is returned.
        is_max: whether a higher value of the metric is better.
        named: names that the training reported, but without a valid number.

    Raises:
        NotReportedError: the training reported other values, but never a value under the name of the metric.
        ValueError: the training never reported a valid number for the metric.
    """
    scored = [point for point in points if metric in point]
    if not points:
        return None
    if not scored:
        names = [*dict.fromkeys(name for point in points for name in point if name not in _NOT_OF_RESULTS)]
        is_named = metric in named
        raise (ValueError if is_named or not names else NotReportedError)(
            f"the objective returned nothing and reported no number as '{metric}'; it reported: "
            f"{', '.join(names) or 'nothing'}; report '{metric}', or set `metric` to a reported name"
        )
    best = max if is_max else min
    point = scored[-1] if curve_score == "last" else best(scored, key=lambda point: point[metric])
    return {name: value for name, value in point.items() if name not in _NOT_OF_RESULTS}


def seconds(value: Any) -> float | None:
    """Return a duration in seconds as a float; None if the value is not a valid duration."""
    checked = number(value)
    return float(checked) if checked is not None and 0 <= checked <= _MOST_SECONDS else None


def result(
    returned: Any, names: Sequence[str], num_metrics: int = 1, num_needed: int | None = None
) -> dict[str, int | float]:
    """Return the numbers that an objective returned, by name.

    Args:
        returned: the objective's return value: a mapping by name, the value of the only metric, or the values of
            several metrics in their order.
        names: the metrics in their order, then the names of the other values that the objective must return.
        num_metrics: how many of `names` are metrics.
        num_needed: check only that the first `num_needed` of `names` were returned; None = check all.

    Raises:
        NotReportedError: `returned` is a mapping that is not empty, but lacks a needed name.
        ValueError: `returned` is None, is empty or has another form; or a needed value is not a valid number.
    """
    metric = names[0]
    if isinstance(plain(returned), int | float):
        returned = {metric: returned}
    elif num_metrics > 1 and isinstance(returned, tuple | list):
        returned = _by_metric(returned, names[:num_metrics])
    if returned is None:
        raise ValueError(
            f"the objective must return a number or a dict of numbers, given None; return the score, or report it: "
            f"trial.report({metric}=...)"
        )
    if not isinstance(returned, Mapping):
        raise ValueError(f"the objective must return a number or a dict of numbers, given {returned!r:.200}")
    by_name = numbers(returned)
    for name in names[:num_needed]:
        if name not in by_name:
            is_named = name in returned or not returned
            raise (ValueError if is_named else NotReportedError)(_why_no_score(returned, name))
    return by_name


def _by_metric(returned: Sequence[Any], metrics: Sequence[str]) -> dict[str, Any]:
    """Return the values of several metrics by name; raise ValueError unless there is one value per metric."""
    if len(returned) != len(metrics):
        raise ValueError(
            f"the objective must return one number for each of {', '.join(metrics)}, but it returned {len(returned)} "
            f"values"
        )
    return dict(zip(metrics, returned, strict=True))


def _why_no_score(returned: Mapping[Any, Any], metric: str) -> str:
    if metric not in returned:
        return f"the objective returned no '{metric}'; it returned: {', '.join(map(str, returned)) or 'nothing'}"
    score = plain(returned[metric])
    if isinstance(score, float) and not math.isfinite(score):
        return f"the objective's '{metric}' is {score}: the training diverged, or no example was scored"
    if isinstance(score, int | float):
        return f"the objective's '{metric}' must be between -{LARGEST:g} and {LARGEST:g}: the training diverged"
    return f"the objective's '{metric}' must be a number, given {score!r:.200}"
