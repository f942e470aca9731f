"""The three kinds of dimension: ordered values, unordered choices, and ranges.

A dimension may have a condition (`when`): it is then active only if other dimensions have the given values. A dimension
may also have a default, which is the value around which a search starts. A value may be a list or a mapping, such as
`[64, 32]` for the widths of layers.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# A shared encoder, because `json.dumps` would create a new one for every point.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def canonical_text(value: Any) -> str:
    """Return a value as canonical JSON, with sorted keys and no blanks between values.

    Two points with the same text count as the same point. Two lists or mappings with the same text count as the same
    value of a dimension.
    """
    return _CANONICAL.encode(value)


class _OneValue:
    """Base class of hashable lists and mappings; `str` returns their canonical JSON, by which they are compared."""

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | tuple | dict) and canonical_text(self) == canonical_text(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __str__(self) -> str:
        return canonical_text(self)


class ListValue(_OneValue, list[Any]):  # type: ignore[misc]  # Both bases define `__eq__`; the first one is used.
    """A list that is a single value of a dimension; it must not be changed in place."""


class DictValue(_OneValue, dict[str, Any]):  # type: ignore[misc]  # As above.
    """A mapping that is a single value of a dimension; it must not be changed in place."""


def as_value(value: Any) -> Any:
    """Turn a list or mapping into a `ListValue` or `DictValue`; return any other value unchanged."""
    if isinstance(value, Mapping):
        return DictValue(value)
    return ListValue(value) if isinstance(value, list | tuple) else value


def as_values(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point that was read from JSON, with its lists and mappings turned into values by `as_value`."""
    return {key: as_value(value) for key, value in point.items()}


Value = int | float | str | bool | ListValue | DictValue | None
Point = Mapping[str, Value]
Condition = Mapping[str, tuple[Value, ...]]


class NoDefault:
    """Marks that a dimension has no default; None cannot mark this, because None may be a value."""


@dataclass(frozen=True)
class Values:
    """A finite dimension whose values have an order, such as numbers of layers, widths or batch sizes."""

    key: str
    values: tuple[Value, ...]
    when: Condition = field(default_factory=dict)
    default: Value | type[NoDefault] = NoDefault
    ordered = True

    def draw(self, rng: np.random.Generator) -> Value:
        """Return a random value; all values are equally likely."""
        return self.values[int(rng.integers(len(self.values)))]

    def to_unit(self, value: Value) -> float:
        """Return a value's position between 0 and 1: the middle of the value's share of the axis."""
        return (self.values.index(value) + 0.5) / len(self.values)

    def from_unit(self, unit: float) -> Value:
        """Return the value at a position. A position below 0 counts as 0, a position above 1 as 1."""
        return self.values[min(int(min(max(unit, 0.0), 1.0) * len(self.values)), len(self.values) - 1)]


@dataclass(frozen=True)
class Choices(Values):
    """A finite dimension whose values have no order, such as optimizers; values may be lists or mappings."""

    ordered = False


@dataclass(frozen=True)
class Range:
    """A dimension of all numbers from `low` to `high`, both included; with `integer`, only the integers.

    With `log`, the scale of the range is logarithmic. Integers on a logarithmic scale are drawn log-uniformly from
    [low - 1/2, high + 1/2] and then rounded, as in Optuna's IntDistribution.
    """

    key: str
    low: float
    high: float
    log: bool = False
    integer: bool = False
    when: Condition = field(default_factory=dict)
    default: Value | type[NoDefault] = NoDefault
    ordered = True

    def _bounds(self) -> tuple[float, float]:
        half = 0.5 if self.integer else 0.0
        low, high = self.low - half, self.high + half
        return (math.log(low), math.log(high)) if self.log else (low, high)

    def to_unit(self, value: Any) -> float:
        """Return the position of a value as a number from 0 to 1; the scale is linear, or logarithmic with `log`.

        Position 0 is `low`, or `low` - 1/2 for integers. Position 1 is `high`, or `high` + 1/2 for integers.
        """
        low, high = self._bounds()
        return ((math.log(value) if self.log else value) - low) / (high - low) if high > low else 0.5

    def from_unit(self, unit: float) -> int | float:
        """Return the value at a position (see `to_unit`). A position below 0 counts as 0, a position above 1 as 1."""
        low, high = self._bounds()
        value = low + min(max(unit, 0.0), 1.0) * (high - low)
        value = math.exp(value) if self.log else value
        if self.integer:
            return int(min(max(round(value), self.low), self.high))
        return float(min(max(value, self.low), self.high))

    def draw(self, rng: np.random.Generator) -> Value:
        """Return a random value, uniform (log-uniform with `log`)."""
        return self.from_unit(float(rng.random()))

    @property
    def values(self) -> Sequence[Value]:
        """The integers of the range; empty if the range is not limited to integers."""
        return range(int(self.low), int(self.high) + 1) if self.integer else ()


Dimension = Values | Choices | Range


def is_among(value: Value, values: Sequence[Value]) -> bool:
    """Return whether a value is in a list of values; true and 1 are different values."""
    return any(value == v and isinstance(value, bool) == isinstance(v, bool) for v in values)


def is_active(dimension: Dimension, values: Point) -> bool:
    """Return whether a dimension is active, given the values of other dimensions."""
    # Check for a condition first: most dimensions have none, and this is called for every dimension of every draw.
    return not dimension.when or all(
        key in values and is_among(values[key], allowed) for key, allowed in dimension.when.items()
    )


def allows(dimension: Dimension, value: Value) -> bool:
    """Return whether a value is allowed in a dimension; true and 1 are different values."""
    if not isinstance(dimension, Range):
        return is_among(value, dimension.values)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return dimension.low <= value <= dimension.high and (not dimension.integer or value == int(value))


def rank_of(values: Sequence[Value], value: Value) -> int:
    """Return the index of a value in a list that contains it; true and 1 are different values."""
    return next(k for k, v in enumerate(values) if v == value and isinstance(v, bool) == isinstance(value, bool))


def canonical(dimension: Dimension, value: Any) -> Value:
    """Convert `value`, which the dimension must allow, to the type of the dimension's values.

    For example, 1 becomes 1.0 in a range of floats. Otherwise 1 and 1.0 would give the same point two keys, because
    the key of a point is the point's JSON text.
    """
    if isinstance(dimension, Range):
        return int(value) if dimension.integer else float(value)
    return dimension.values[rank_of(dimension.values, value)]


def to_stored(value: Value) -> int | float | str | bool | None:
    """Return a value in a form that Optuna's storages support; lists and mappings become canonical JSON."""
    return str(value) if isinstance(value, ListValue | DictValue) else value


def from_stored(dimension: Dimension, value: Any) -> Any:
    """Return the value of a dimension from its stored form; the inverse of `to_stored`."""
    if isinstance(dimension, Range) or not isinstance(value, str):
        return as_value(value)
    return next((v for v in dimension.values if isinstance(v, ListValue | DictValue) and str(v) == value), value)


def describe(dimension: Dimension) -> dict[str, Any]:
    """Return a JSON-able dict that describes a dimension: its key and kind, and its values or its bounds and scale."""
    fields: dict[str, Any] = {"key": dimension.key}
    if isinstance(dimension, Range):
        fields |= {"kind": "range", "low": dimension.low, "high": dimension.high}
        fields |= {"log": dimension.log, "integer": dimension.integer}
    else:
        fields |= {"kind": "values" if dimension.ordered else "choices", "values": list(dimension.values)}
    if dimension.default is not NoDefault:
        fields["default"] = dimension.default
    return fields | ({"when": {k: list(v) for k, v in dimension.when.items()}} if dimension.when else {})
