"""Evolutionary search: the best points have children, the worst are deleted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from hpo.dimensions import Dimension, Range, Value
from hpo.history import History
from hpo.space import Point, Space
from hpo.strategies.draws import draw_untried
from hpo.strategies.protocol import Settings


class EvolutionarySettings(Settings):
    """Settings of evolutionary search.

    Attributes:
        population: points alive in a generation; the first generation is drawn at random.
        generations: how many there are, the first population among them; None lets the budget end the search.
        surviving: share of the population that lives on (rounded, at least 1) and has children.
        crossover: probability that a hyperparameter comes from the second parent and not from the first.
        mutation: probability that a hyperparameter of a child is changed; None is 1 / number of dimensions.
        mutation_steps: how far a mutation moves along ordered values, at most, in neighbouring values.
        mutation_scale: standard deviation of the Gaussian step on a range, as a share of its (log) length.
    """

    population: int = Field(ge=2)
    generations: int | None = Field(ge=1)
    surviving: float = Field(gt=0, lt=1)
    crossover: float = Field(ge=0, le=1)
    mutation: float | None = Field(ge=0, le=1)
    mutation_steps: int = Field(ge=1)
    mutation_scale: float = Field(gt=0, le=1)

    @property
    def survivors(self) -> int:
        """How many points live on."""
        return max(1, round(self.surviving * self.population))

    @model_validator(mode="after")
    def _has_children(self) -> Self:
        if self.survivors >= self.population:
            raise PydanticCustomError(
                "cross_field",
                "must leave room for children, given {survivors} survivors of {population}; lower strategy.surviving",
                {
                    "survivors": self.survivors,
                    "population": self.population,
                    "keys": ["strategy.surviving", "strategy.population"],
                },
            )
        return self


@dataclass(frozen=True)
class Evolutionary:
    """Delete the worst, pair the best at random, cross and mutate.

    First points: `population` random ones. Each later generation keeps the best `surviving` share of all
    points, which are not trained again, and fills up with children: two different survivors are paired at
    random, each hyperparameter is taken from one or the other, and is changed with a probability: to a
    neighbouring value where values have an order, to any other where not, by a Gaussian step on the (log)
    scale of a range. A child that has been tried already is made again; where no new one is found, a random
    point takes its place. Failures count as worst, ties go to the earlier trial. Ends after its
    generations, or when a finite space is exhausted.

    Because the worst are always the ones deleted, the survivors of a generation are the best of the whole
    history, and nothing has to be remembered between rounds.

    Source: lecture "Hyperparameter Optimization", CIS, LMU Munich, 2020; in the terms of evolution strategies
    (Beyer & Schwefel 2002, "Evolution strategies: a comprehensive introduction") a (mu + lambda) strategy.

    Example: with population 10 and surviving 0.3, round 0 has 10 random points and each later round
    7 children of the best 3 so far.
    """

    settings: EvolutionarySettings
    space: Space
    seed: int

    @property
    def announcement(self) -> str:
        """One line on the generations."""
        children = self.settings.population - self.settings.survivors
        generations = f"{self.settings.generations} generations" if self.settings.generations else "generations"
        return (
            f"evolutionary: {generations}, the first of {self.settings.population} random points, each later one of "
            f"{children} children of the best {self.settings.survivors}"
        )

    def next_round(self, history: History) -> Sequence[Point]:
        """Return the first population, or the children of the best points so far."""
        if self.settings.generations and history and history[-1].round + 1 >= self.settings.generations:
            return []
        rng = np.random.default_rng((self.seed, len(history)))
        population, survivors = self.settings.population, self.settings.survivors
        if not history:
            return draw_untried(self.space, rng, history.keys, population)
        parents = [trial.point for trial in history.ranked(survivors)]
        return draw_untried(
            self.space, rng, history.keys, population - survivors, propose=lambda: self.child(parents, rng)
        )

    def child(self, parents: Sequence[Point], rng: np.random.Generator) -> Point:
        """Return a child of two different parents (of the only one, where there is one), mutated."""
        pair = [parents[int(i)] for i in rng.permutation(len(parents))[:2]]
        first, second = pair[0], pair[-1]
        probability = self.settings.mutation
        if probability is None:
            probability = 1 / len(self.space.dimensions)
        values: dict[str, Value] = {}
        for dimension in self.space.dimensions:
            # A dimension that only one parent has comes from that parent; `complete` drops it if inactive.
            sources = [p for p in (first, second) if dimension.key in p]
            if sources:
                chosen = sources[-1] if rng.random() < self.settings.crossover else sources[0]
                values[dimension.key] = chosen[dimension.key]
                if rng.random() < probability:
                    values[dimension.key] = self.mutated(dimension, values[dimension.key], rng)
        return self.space.complete(values, rng)

    def mutated(self, dimension: Dimension, value: Value, rng: np.random.Generator) -> Value:
        """Return another value of the dimension near this one (the same where there is no other)."""
        if isinstance(dimension, Range):
            assert isinstance(value, int | float)
            step = float(rng.normal(0.0, self.settings.mutation_scale))
            return dimension.from_unit(dimension.to_unit(value) + step)
        place, last = dimension.values.index(value), len(dimension.values) - 1
        if not dimension.ordered:
            others = [v for i, v in enumerate(dimension.values) if i != place]
        else:
            reach = self.settings.mutation_steps
            others = [v for i, v in enumerate(dimension.values) if i != place and abs(i - place) <= reach]
        return others[int(rng.integers(len(others)))] if last else value
