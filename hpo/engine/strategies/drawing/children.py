"""Crosses and mutates points: the children of an evolutionary search."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpo.trials.space.dimensions import Dimension, Range, Value
from hpo.trials.space.space import Point, Space


@dataclass(frozen=True)
class Breeding:
    """Makes children; the defaults are those of conf/strategy/evolutionary.yaml.

    Attributes:
        crossover: the probability that a hyperparameter comes from the second parent.
        mutation: the probability that a hyperparameter changes; None = 1 / number of hyperparameters.
        mutation_steps: the most steps along ordered values; None = one with probability 1/2, two with 1/4, and so on.
        mutation_scale: the standard deviation of a change on a range, as a share of its (log) length.
    """

    space: Space
    crossover: float = 0.5
    mutation: float | None = None
    mutation_steps: int | None = None
    mutation_scale: float = 0.1

    def child(self, parents: Sequence[Point], rng: np.random.Generator) -> Point:
        """Return a mutated child of two different parents, or of the only one."""
        place = int(rng.integers(len(parents)))
        first, second = parents[place], parents[place - int(rng.integers(1, max(len(parents), 2)))]
        probability = 1 / max(len(first), 1) if self.mutation is None else self.mutation
        values: dict[str, Value] = {}
        # One call for all numbers: one call for each takes most of the time of a proposal.
        crossing, mutating = rng.random((2, len(self.space.dimensions))).tolist()
        for dimension, crosses, mutates in zip(self.space.dimensions, crossing, mutating, strict=True):
            # A dimension that one parent lacks comes from the other; `complete` drops it if it is inactive.
            key, (one, other) = dimension.key, (second, first) if crosses < self.crossover else (first, second)
            if key in one or key in other:
                value = one[key] if key in one else other[key]
                values[key] = self.mutated(dimension, value, rng) if mutates < probability else value
        return self.space.complete(values, rng)

    def mutated(self, dimension: Dimension, value: Value, rng: np.random.Generator) -> Value:
        """Return another value of the dimension near this one; the same if it is the only value."""
        if isinstance(dimension, Range):
            assert isinstance(value, int | float)
            unit = dimension.to_unit(value) + float(rng.normal(0.0, self.mutation_scale))
            # Reflect at the ends: clipping would propose an end again and again.
            return dimension.from_unit(1 - abs(1 - abs(unit) % 2))
        last = len(dimension.values) - 1
        if last == 0:
            return value
        place = dimension.values.index(value)
        if not dimension.ordered:
            other = int(rng.integers(last))
            return dimension.values[other + (other >= place)]
        while True:
            steps = self.mutation_steps
            distance = int(rng.geometric(0.5)) if steps is None else int(rng.integers(1, steps + 1))
            target = place + distance * (1 if rng.random() < 0.5 else -1)
            if 0 <= target <= last:
                return dimension.values[target]
