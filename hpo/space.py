"""The search space: its dimensions, the points in it, and the identity of a point."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpo.dimensions import Dimension, Value, allows, describe

Point = Mapping[str, Value]


def point_key(point: Point) -> str:
    """Return the identity of a point: its canonical JSON (sorted names, no blanks)."""
    return json.dumps(dict(point), sort_keys=True, separators=(",", ":"))


def short_text(point: Point) -> str:
    """Return a point for people, in short: `lr=0.0003 num_layers=2`."""
    return " ".join(
        f"{key.rpartition('.')[2]}={value:.3g}" if isinstance(value, float) else f"{key.rpartition('.')[2]}={value}"
        for key, value in point.items()
    )


@dataclass(frozen=True)
class Space:
    """The hyperparameters searched. Dimensions keep the order in which they were written."""

    dimensions: tuple[Dimension, ...]

    def __getitem__(self, key: str) -> Dimension:
        return next(d for d in self.dimensions if d.key == key)

    @property
    def keys(self) -> tuple[str, ...]:
        """The dotted names of the dimensions."""
        return tuple(d.key for d in self.dimensions)

    @property
    def size(self) -> int | None:
        """How many different points there are; None where a range makes them countless."""
        if any(not d.values for d in self.dimensions):
            return None
        parents = {key for d in self.dimensions for key in d.when}
        branching = [d for d in self.dimensions if d.key in parents or d.when]
        free = math.prod(len(d.values) for d in self.dimensions if d not in branching)
        return free * sum(1 for _ in _combinations(branching))

    def points(self) -> Iterator[Point]:
        """Yield every point of a finite space once, the last dimension running fastest."""
        return _combinations(self.dimensions)

    def active(self, dimension: Dimension, values: Point) -> bool:
        """Return whether the dimension exists beside these values of the others."""
        return all(key in values and values[key] in allowed for key, allowed in dimension.when.items())

    def draw(self, rng: np.random.Generator) -> Point:
        """Return a point drawn at random: each active dimension by itself, parents before children."""
        return self.complete({}, rng)

    def complete(self, values: Point, rng: np.random.Generator) -> Point:
        """Return a whole point: keep the given values that are active, draw the active ones that are missing."""
        point: dict[str, Value] = {}
        for dimension in self.dimensions:
            if self.active(dimension, point):
                given = values.get(dimension.key) if dimension.key in values else dimension.draw(rng)
                point[dimension.key] = given
        return point

    def contains(self, point: Point) -> bool:
        """Return whether the point has exactly the active dimensions, each with an allowed value."""
        expected = [d for d in self.dimensions if self.active(d, point)]
        return {d.key for d in expected} == set(point) and all(allows(d, point[d.key]) for d in expected)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return a JSON-able description, one dict a dimension, as reports show it."""
        return [describe(d) for d in self.dimensions]


def _combinations(dimensions: Sequence[Dimension]) -> Iterator[Point]:
    """Yield every combination of the active values, the last dimension running fastest."""
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
    if not all(key in values and values[key] in allowed for key, allowed in first.when.items()):
        yield from _branch(rest, values)
        return
    for value in first.values:
        yield from _branch(rest, {**values, first.key: value})
