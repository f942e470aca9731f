"""The values of `study.metrics`, `study.limits` and `study.choose`: what is better, allowed, and chosen in the end."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

Direction = Literal["maximize", "minimize"]
_CHOICES = ("knee", "first_within_limits")
_EXAMPLES = (
    "knee, first_within_limits, weights such as {accuracy: 0.7, parameters: 0.3}, or {best: accuracy, within: "
    "{parameters: 5 %}}"
)

# A metric's name, as an objective returns it.
_Name = Annotated[str, Field(min_length=1)]


def _named(given: dict[str, Any]) -> dict[str, Any]:
    if not given:
        raise ValueError("must name a metric or more, such as {accuracy: maximize, parameters: minimize}")
    return given


def _bounded(given: float | dict[str, float]) -> float | dict[str, float]:
    if isinstance(given, dict) and (not given or given.keys() - {"min", "max"}):
        raise ValueError("must be a number, or {min: ...}, {max: ...} or both")
    if isinstance(given, dict) and len(given) == 2 and given["min"] > given["max"]:
        raise ValueError("must not have its min above its max")
    return given


Metrics = Annotated[dict[_Name, Direction], AfterValidator(_named)]
"""Directions by metric; the first is the leading one."""

Limits = dict[_Name, Annotated[float | dict[str, float], AfterValidator(_bounded)]]
"""Limits by metric: a number is the most that it may be, or the least where it is maximized."""


def bounds_of(given: float | Mapping[str, float], direction: Direction | None) -> list[tuple[float, bool]]:
    """Return the bounds of a limit, each with whether it is the least that is allowed (else the most)."""
    if isinstance(given, Mapping):
        return [(bound, side == "min") for side, bound in given.items()]
    return [(given, direction == "maximize")]


def _choice(given: Any) -> Any:
    """Check the form of a choice; its metrics are checked beside those of the study."""
    if given in _CHOICES:
        return given
    if not isinstance(given, dict):
        raise ValueError(f"must be one of {_EXAMPLES}")
    if given.keys() == {"best", "within"}:
        if not isinstance(given["best"], str) or not isinstance(given["within"], dict) or not given["within"]:
            raise ValueError(f"must be one of {_EXAMPLES}")
        for share in given["within"].values():
            share_of(share)
        return given
    weights = [*given.values()]
    if not weights or any(isinstance(w, bool) or not isinstance(w, int | float) or not 0 <= w < 1e100 for w in weights):
        raise ValueError(f"must be one of {_EXAMPLES}")
    if not any(weights):
        raise ValueError("must have a weight above 0")
    return given


Choice = Annotated[str | dict[str, Any], BeforeValidator(_choice)]
"""How one of the front is chosen."""


def share_of(given: Any) -> float:
    """Return the share that `5 %`, `5%` or 0.05 means, 0 or more; ValueError for all else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", given) if isinstance(given, str) else None
    if match is not None:
        return float(match[1]) / 100
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < 1e100:
        raise ValueError(f"must have shares such as 5 % or 0.05, not {given!r}")
    return float(given)


def metrics_of(choice: str | Mapping[str, Any]) -> list[str]:
    """Return the metrics that a choice names."""
    if isinstance(choice, str):
        return []
    return [choice["best"], *choice["within"]] if choice.keys() == {"best", "within"} else [*choice]
