"""Crosses and mutates points to make the children of an evolutionary search."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpo.trials.space.dimensions import Dimension, Range, Value
from hpo.trials.space.space import Point, Space


@dataclass(frozen=True)
class Breeding:
    """Makes children; the default values are the same as in conf/strategy/evolutionary.yaml.

    Attributes:
        space: the space of the points.
        crossover: the probability that a hyperparameter comes from the second parent.
        mutation: the probability that a hyperparameter changes; None = 1 / number of hyperparameters.
        mutation_steps: a mutation moves 1 to `mutation_steps` steps along ordered values, each number equally likely;
            None = one step with probability 1/2, two with 1/4, and so on.
        mutation_scale: the standard deviation of a mutation in a range, as a share of the range's (log) length.
    """

    space: Space
    crossover: float = 0.5
    mutation: float | None = None
    mutation_steps: int | None = None
    mutation_scale: float = 0.1

    def child(self, parents: Sequence[Point], rng: np.random.Generator) -> Point:
        """Return a mutated child of two different parents, or of one parent if there is only one."""
        place = int(rng.integers(len(parents)))
        first, second = parents[place], parents[place - int(rng.integers(1, max(len(parents), 2)))]
        probability = 1 / max(len(first), 1) if self.mutation is None else self.mutation
        values: dict[str, Value] = {}
        # Draw all random numbers in one call: separate calls would take most of the time of a proposal.
        crossing, mutating = rng.random((2, len(self.space.dimensions))).tolist()
        for dimension, crosses, mutates in zip(self.space.dimensions, crossing, mutating, strict=True):
            # If one parent lacks the dimension, take the other's value; `complete` drops it if it is inactive here.
            key, (one, other) = dimension.key, (second, first) if crosses < self.crossover else (first, second)
            if key in one or key in other:
                value = one[key] if key in one else other[key]
                values[key] = self.mutated(dimension, value, rng) if mutates < probability else value
        return self.space.complete(values, rng)

    def mutated(self, dimension: Dimension, value: Value, rng: np.random.Generator) -> Value:
        """Return another value of the dimension; in an ordered dimension, one that is near the old value.

        Return the old value if the dimension has no other value. In a range of whole numbers, the old value may also
        result from rounding.
        """
        if isinstance(dimension, Range):
            unit = dimension.to_unit(value) + float(rng.normal(0.0, self.mutation_scale))
            # Reflect at the ends of the range: clipping would propose the end values again and again.
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
