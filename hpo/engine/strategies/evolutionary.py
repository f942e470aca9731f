"""Evolutionary search: the best points survive and have children."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from hpo.config.sections import conflict
from hpo.engine.strategies.drawing.children import Breeding
from hpo.engine.strategies.drawing.draws import draw_stratified, draw_untried
from hpo.engine.strategies.drawing.preselection import Preselection
from hpo.engine.strategies.strategy import MOST, Learns, Settings, generator, next_round
from hpo.trials.history import History
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial


class EvolutionarySettings(Settings):
    """Settings of evolutionary search, described in conf/strategy/evolutionary.yaml."""

    population: int = Field(ge=2, le=MOST)
    opening: Literal["stratified", "random"]
    generations: int | None = Field(ge=1, le=MOST)
    surviving: float = Field(gt=0, lt=1)
    children: int | None = Field(ge=1, le=MOST)
    candidates: int = Field(ge=1, le=MOST)
    penalize_pending: bool
    patience: int | None = Field(ge=1, le=MOST)
    crossover: float = Field(ge=0, le=1)
    mutation: float | None = Field(ge=0, le=1)
    mutation_steps: int | None = Field(ge=1, le=MOST)
    mutation_scale: float = Field(gt=0, le=1)

    @property
    def survivors(self) -> int:
        """The number of points that survive and have children in a search with one metric.

        With several metrics, multiply this number by the number of metrics in which the best trials differ. For
        example, if the best trials differ in two of three metrics, twice as many points survive.
        """
        return max(1, round(self.surviving * self.population))

    @property
    def generation(self) -> int:
        """The number of children in a generation."""
        return self.children or self.population - self.survivors

    @model_validator(mode="after")
    def _has_children(self) -> Self:
        if self.survivors >= self.population:
            given = f"given {self.survivors} survivors of {self.population}"
            text = f"must leave room for children, {given}; lower strategy.surviving"
            raise conflict(text, "strategy.surviving", "strategy.population")
        return self


@dataclass(frozen=True)
class Evolutionary:
    """Pair the best points at random, cross and mutate them, and train the most promising children.

    The first `population` points are spread evenly over every dimension, or random with `opening: random`. Then the
    survivors, which are the best complete points so far, have children. With one metric, there are n = `surviving` *
    `population` survivors. With k metrics, first take the best k * n points, and count the metrics in which their
    losses differ. With m such metrics, the best m * n points survive.

    A child takes each hyperparameter from one of two different survivors. Then each hyperparameter mutates with the
    probability `mutation`. A mutated ordered value becomes a nearby value, and a choice becomes any other choice. A
    number in a range moves by a Gaussian step on the range's (log) scale, reflected at the ends.

    With several metrics, points are ranked by Pareto fronts, and within a front by the hypervolume that each point adds
    to the front (SMS-EMOA: Beume, Naujoks & Emmerich 2007). Points that exceed a limit rank last (Deb 2000).

    For each child to be trained, `candidates` candidates are drawn, and `Preselection` chooses among all candidates.
    `Preselection` avoids candidates near failed trials and, with `penalize_pending`, candidates near pending trials. A
    child that was tried before is replaced by another child. After `patience` such children in a row, the remaining
    candidates are random points. Failed and stopped trials have no children, and ties go to the earlier trial. While no
    trial is complete, candidates are random. The search ends after `generations` generations, or when a finite space is
    exhausted.

    Source: lecture "Hyperparameter Optimization", CIS, LMU Munich, 2020. In the terms of evolution strategies (Beyer &
    Schwefel 2002, "Evolution strategies: a comprehensive introduction"), this search is a (mu + lambda) strategy. With
    `children: 1` there are no generations (steady-state evolution, Whitley 1989, "The GENITOR algorithm and selection
    pressure"). For the lecture's own method, set `opening: random`, `children: null`, `candidates: 1` and
    `mutation_steps: 1`.

    Example: with population 8, surviving 0.25, 8 candidates and 1 child, 8 points are trained first. Then, again and
    again, the best 2 points produce 8 candidates, and one of these is trained.
    """

    REVISION: ClassVar[int] = 3

    settings: EvolutionarySettings
    space: Space
    seed: int

    @property
    def announcement(self) -> str:
        """One line of text about the population and its children."""
        settings = self.settings
        first = f"evolutionary: {settings.population} points, then "
        best = f"of the best {settings.survivors}"
        if settings.generation == 1:
            until = f", until {settings.generations} proposals" if settings.generations else ""
            return f"{first}one child at a time {best}{until}"
        generations = f"{settings.generations - 1} generations" if settings.generations else "generations"
        return f"{first}{generations} of {settings.generation} children {best}"

    @property
    def learns(self) -> Learns:
        """When the strategy learns from results: `by_round` if a generation has several children, else `by_trial`."""
        return "by_round" if self.settings.generation > 1 else "by_trial"

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point]:
        """Return the first population, or children of the best points so far.

        Return no points after the last generation. If a generation has several children, also return no points while a
        trial is pending.
        """
        settings = self.settings
        if pending and self.learns == "by_round":
            return []
        if settings.generations and next_round([*known, *pending]) >= settings.generations:
            return []
        rng, tried = generator(self.seed, known, pending), known.tried(pending)
        # Trials imported from other studies count as members of the first population. The points of space.first do not:
        # the first proposal adds them to a whole population.
        missing = settings.population - len(known) - len(pending)
        if missing > 0:
            draw_first = draw_stratified if settings.opening == "stratified" else draw_untried
            return draw_first(self.space, rng, tried, missing)
        parents = [trial.point for trial in self._best(known)]
        count = settings.generation
        breed = (lambda: self.breeding.child(parents, rng)) if parents else None
        drawn = draw_untried(self.space, rng, tried, count * settings.candidates, breed, settings.patience)
        return drawn if len(drawn) <= count else self._preselection.most_promising(known, pending, drawn, count)

    def _best(self, known: History) -> list[Trial]:
        """Return the surviving trials, the best first; for their number, see `EvolutionarySettings.survivors`."""
        survivors = self.settings.survivors
        best = [trial for trial in known.ranked(survivors * known.num_metrics) if trial.state == "complete"]
        differing = sum(len(set(losses)) > 1 for losses in zip(*(trial.losses for trial in best), strict=True))
        return best[: survivors * max(1, differing)]

    @cached_property
    def _preselection(self) -> Preselection:
        return Preselection(self.space, self.settings.penalize_pending)

    @cached_property
    def breeding(self) -> Breeding:
        """The operator that crosses and mutates points."""
        settings = self.settings
        return Breeding(
            self.space, settings.crossover, settings.mutation, settings.mutation_steps, settings.mutation_scale
        )
