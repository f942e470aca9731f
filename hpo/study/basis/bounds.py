"""Finds the bounds of a metric, and whether a metric is a proportion of independent examples, such as accuracy."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, FiniteFloat, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from hpo.config.study_config import explain
from hpo.errors import DataError
from hpo.workers.objective.path import ObjectivePath

Bounds = tuple[float | None, float | None]  # the smallest and largest value; None = unbounded, or unknown


def _check_order(bounds: Bounds) -> Bounds:
    low, high = bounds
    if low is not None and high is not None and low >= high:
        raise ValueError("must be a lower bound and a larger upper bound, in this order")
    return bounds


class _Known(TypedDict, total=False):
    bounds: dict[str, Annotated[tuple[FiniteFloat | None, FiniteFloat | None], AfterValidator(_check_order)]]
    shares: list[str]


def refuse_bad_bounds(method: Mapping[str, Any], objective: str) -> None:
    """Raise DataError if the `bounds` or `shares` of `describe_method` are malformed."""
    try:
        TypeAdapter(_Known).validate_python({key: method[key] for key in ("bounds", "shares") if key in method})
    except ValidationError as error:
        raise DataError(f"objective: {ObjectivePath.of(objective).owner}.describe_method: {explain(error)}") from error


def bounds_of(method: Mapping[str, Any], metric: str) -> Bounds:
    """Return the bounds of a metric from the result of `describe_method`.

    By default, a metric that is a proportion of examples, such as accuracy, has the bounds 0 and 1.
    """
    low, high = method.get("bounds", {}).get(metric, (0.0, 1.0) if is_share(method, metric) else (None, None))
    return low, high


def is_share(method: Mapping[str, Any], metric: str) -> bool:
    """Return whether a metric is a proportion of independent examples, such as accuracy."""
    return metric in method.get("shares", ())
