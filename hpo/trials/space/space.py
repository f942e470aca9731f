"""The search space: its dimensions, the points in it, and the identity of a point."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hpo.formatting import format_short
from hpo.trials.space.constraints import Constraint
from hpo.trials.space.dimensions import Dimension, Value, allows, canonical_text, describe, is_active, is_among
from hpo.trials.space.dimensions import Point as Point


def point_key(point: Point) -> str:
    """Return the key that identifies a point: the point as canonical JSON; see `canonical_text`."""
    return canonical_text(dict(point))


def short_text(point: Point, widths: Mapping[str, int] | None = None) -> str:
    """Return a point as a short text, such as `lr=3e-4 num_layers=2`.

    Only the last part of each dotted key is written, unless two keys have the same last part. `widths` maps a
    key to the least width to which its value is padded.
    """
    lasts = [key.rpartition(".")[2] for key in point]
    names = lasts if len(set(lasts)) == len(lasts) else list(point)
    least = widths or {}
    values = [format_short(value).ljust(least.get(key, 0)) for key, value in point.items()]
    return " ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))


# After this many draws in a row that break a rule, choose from a list of all valid points. If a share f of all points
# is valid, the probability that 100 draws in a row break a rule is (1 - f)**100, which is 0.6 % for f = 0.05.
_PATIENCE = 100
COUNTABLE = 1_000_000  # the most points that are listed to count them, which takes some seconds


@dataclass(frozen=True)
class Space:
    """The search space.

    Attributes:
        dimensions: the dimensions in the order in which they are written; a dimension with a condition comes after the
            dimensions on which the condition depends.
        constraints: the rules that every point must keep.
        first: the points to try before the strategy's own points.
        members: all existing points if only some combinations of values exist, such as the rows of a table; None = all
            combinations exist.
    """

    dimensions: tuple[Dimension, ...]
    constraints: tuple[Constraint, ...] = ()
    first: tuple[Point, ...] = ()
    members: tuple[Point, ...] | None = None

    def __getitem__(self, key: str) -> Dimension:
        return next(d for d in self.dimensions if d.key == key)

    @property
    def keys(self) -> tuple[str, ...]:
        """The dotted names of the dimensions."""
        return tuple(d.key for d in self.dimensions)

    @cached_property
    def size(self) -> int | None:
        """The number of points; None if it is infinite, or if there are rules and too many combinations to check."""
        if self.members is not None:
            return len(self._listed)
        if any(not d.values for d in self.dimensions):
            return None
        combinations = _count_combinations(self.dimensions)
        if not self.constraints:
            return combinations
        return len(self._listed) if combinations <= COUNTABLE else None

    def points(self) -> Iterator[Point]:
        """Yield every point of a finite space once; the last dimension changes fastest.

        If the space has `members`, yield them in their order.
        """
        if self.members is not None:
            return (point for point in self.members if self.contains(point))
        return (point for point in _combinations(self.dimensions) if self.keeps_rules(point))

    def active(self, dimension: Dimension, values: Point) -> bool:
        """Return whether a dimension is active, given the values of other dimensions."""
        return is_active(dimension, values)

    def draw(self, rng: np.random.Generator) -> Point:
        """Return a random point that keeps the rules.

        Draw each active dimension independently. If the point breaks a rule, draw again, up to 100 times in total (once
        if `members` is sparse). If all draws break a rule, choose from the list of all valid points. If this list would
        be too long or is empty, return the last draw, which breaks a rule.
        """
        return self.complete({}, rng)

    def complete(self, values: Point, rng: np.random.Generator) -> Point:
        """Return a point with the given values, and with random values of all other active dimensions.

        The method ignores the values of dimensions that are not active. If it finds no valid point with the given
        values, the returned point breaks a rule.
        """
        for _ in range(1 if self._is_sparse else _PATIENCE):
            point = self._combined(values, rng)
            if self.keeps_rules(point) or len(point) == sum(key in values for key in point):
                return point
        return self._from_list(values, rng) or point

    def _combined(self, values: Point, rng: np.random.Generator) -> Point:
        point: dict[str, Value] = {}
        for dimension in self.dimensions:
            if self.active(dimension, point):
                key = dimension.key
                point[key] = values[key] if key in values else dimension.draw(rng)
        return point

    def _from_list(self, values: Point, rng: np.random.Generator) -> Point | None:
        """Return a random valid point with the given values; None if none exists or the space cannot be listed."""
        if self.size is None:
            return None
        fitting = [p for p in self._listed if all(p[key] == v for key, v in values.items() if key in p)]
        return fitting[int(rng.integers(len(fitting)))] if fitting else None

    def keeps_rules(self, point: Point) -> bool:
        """Return whether a point keeps all constraints.

        If the space has a list of existing points (`members`), the point must also be in this list.

        The method does not check whether the dimensions allow the values of the point.
        """
        if self.members is not None and point_key(point) not in self._member_keys:
            return False
        return all(constraint.holds(point) for constraint in self.constraints)

    @cached_property
    def _listed(self) -> tuple[Point, ...]:
        return tuple(self.points())

    @cached_property
    def _is_sparse(self) -> bool:
        """Whether `members` has less than 5 % of all combinations of values; then random draws seldom find a member."""
        if self.members is None:
            return False
        sizes = [len(d.values) for d in self.dimensions]
        return 0 in sizes or len(self.members) * _PATIENCE < 5 * math.prod(sizes)

    @cached_property
    def _member_keys(self) -> frozenset[str]:
        return frozenset(point_key(point) for point in self.members or ())

    def contains(self, point: Point) -> bool:
        """Return whether a point has exactly the active dimensions, with allowed values, and keeps all rules."""
        expected = [d for d in self.dimensions if self.active(d, point)]
        in_range = {d.key for d in expected} == set(point) and all(allows(d, point[d.key]) for d in expected)
        return in_range and self.keeps_rules(point)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return a JSON-able description of the space for reports, one dict per dimension."""
        return [describe(d) for d in self.dimensions]


def _count_combinations(dimensions: Sequence[Dimension]) -> int:
    """Return the number of combinations of the active values, without listing them."""
    # The number of combinations of the dimensions so far, by the conditions of later dimensions that they meet. A
    # condition is a pair: the key of the dimension that has it, and the key of the dimension that it is about.
    counts = Counter({frozenset[tuple[str, str]](): 1})
    for place, dimension in enumerate(dimensions):
        key, later = dimension.key, dimensions[place + 1 :]
        needed = {(d.key, parent) for d in later for parent in d.when}
        listed: list[Value] = []
        for value in (value for d in later for value in d.when.get(key, ())):
            listed += [] if is_among(value, listed) else [value]
        met = [{(d.key, key) for d in later if is_among(value, d.when.get(key, ()))} for value in listed]
        others = len(dimension.values) - len(listed)
        before, counts = counts, Counter()
        for conditions, count in before.items():
            if all((key, parent) in conditions for parent in dimension.when):
                counts[conditions & needed] += others * count
                for each in met:
                    counts[frozenset((conditions | each) & needed)] += count
            else:
                counts[conditions & needed] += count
    return counts.total()


def _combinations(dimensions: Sequence[Dimension]) -> Iterator[Point]:
    """Yield every combination of the active values; the last dimension changes fastest."""
    if not any(d.when for d in dimensions):
        keys = [d.key for d in dimensions]
        for combination in itertools.product(*(d.values for d in dimensions)):
            yield dict(zip(keys, combination, strict=True))
        return
    yield from _branch(dimensions, {})


def _branch(dimensions: Sequence[Dimension], values: dict[str, Value]) -> Iterator[Point]:
    if not dimensions:
        yield dict(values)
        return
    first, rest = dimensions[0], dimensions[1:]
    if not is_active(first, values):
        yield from _branch(rest, values)
        return
    for value in first.values:
        yield from _branch(rest, {**values, first.key: value})
