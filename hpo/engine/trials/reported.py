"""What an objective may report: numbers, checked where they arrive from it, and where an older record is read."""

import math
from collections.abc import Mapping
from typing import Any

# The squares of larger numbers, which deviations and tests are made of, leave the range of floats.
LARGEST = 1e100
# Three centuries: what is longer was not measured.
_MOST_SECONDS = 1e10


def number(value: Any) -> int | float | None:
    """Return a number as a plain int or float, those of NumPy and torch too; None for everything else.

    What is not finite, or beyond `LARGEST`, is no number here: nothing could be computed with it.
    """
    if hasattr(value, "item") and not isinstance(value, int | float):
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):
            return None  # An array of several.
    if not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return None
    return int(value) if isinstance(value, int) else float(value)


def numbers(reported: Mapping[Any, Any]) -> dict[str, int | float]:
    """Return the numbers of a point or a result by name; what is none is left out: a gap, in a learning curve."""
    return {str(name): found for name, value in reported.items() if (found := number(value)) is not None}


def seconds(value: Any) -> float | None:
    """Return a duration; None for what cannot be one."""
    found = number(value)
    return float(found) if found is not None and 0 <= found <= _MOST_SECONDS else None


def result(returned: Any, metric: str, is_scored: bool) -> dict[str, int | float]:
    """Return the numbers that an objective returned: a number alone is the metric.

    Args:
        returned: by it.
        metric: the study's.
        is_scored: whether that has to be among them.

    Raises:
        ValueError: it is something else, or the metric is missing or no finite number.
    """
    if number(returned) is not None or isinstance(returned, float):
        returned = {metric: returned}
    if not isinstance(returned, Mapping):
        raise ValueError(f"the objective must return a number or a dict of numbers, it returned {returned!r}")
    found = numbers(returned)
    if is_scored and metric not in found:
        raise ValueError(_why_no_score(returned, metric))
    return found


def _why_no_score(returned: Mapping[Any, Any], metric: str) -> str:
    if metric not in returned:
        return f"the objective returned no '{metric}'; it returned: {', '.join(map(str, returned)) or 'nothing'}"
    score = returned[metric]
    if isinstance(score, float) and not math.isfinite(score):
        return f"the objective's '{metric}' is {score}: the training diverged or nothing was scored"
    if isinstance(score, int | float):
        return f"the objective's '{metric}' must lie between -{LARGEST:g} and {LARGEST:g}: the training diverged"
    return f"the objective's '{metric}' must be a number, it is {score!r}"


def cleaned(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an outcome as a record holds them, less what an earlier version let pass or added."""
    return {
        **{name: value for name, value in outcome.items() if name != "checksum"},
        "metrics": numbers(outcome["metrics"]),
        "curve": [numbers(point) for point in outcome["curve"] if isinstance(point, Mapping)],
        "seconds": seconds(outcome["seconds"]) or 0.0,
    }
