"""Optuna's TPE, Gaussian process and CMA-ES samplers as strategies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.strategies.optuna_settings import CmaEsSettings, GpSettings, TpeSettings
from hpo.engine.strategies.strategy import Learns, generator
from hpo.errors import SpaceError
from hpo.trials.history import History
from hpo.trials.space.dimensions import Dimension, Range
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Trial

if TYPE_CHECKING:
    from hpo.engine.strategies.optuna_study import Proposals

# Whole numbers of a range that Optuna's Gaussian process lists: 80 MB.
_MOST_LISTED = 10_000_000


@dataclass(frozen=True)
class OptunaModel:
    """Points from Optuna's TPE, Gaussian process or CMA-ES, each of which sees the trials as an Optuna study.

    First points: TPE and the Gaussian process draw `startup` points uniformly; CMA-ES starts from a normal distribution
    in the middle of the space, its standard deviation a sixth of every range. Ordered values are passed as their ranks,
    so that the sampler sees their order but not their spacing; choices as categories. A dimension with a condition is
    modelled separately (TPE) or drawn at random (the others); CMA-ES also draws choices at random.

    A failed trial is passed as complete with an infinite loss, which comes last: Optuna's own FAIL would hide it, and
    the same bad region would be proposed again. For TPE and the Gaussian process it also breaks a constraint, as one
    beyond the study's limits does another, by its excess. Optuna breaks ties. A proposal that was tried before, or that
    the space does not contain, is answered at once (with its known loss, if any); after `patience` of them in a row an
    untried point is drawn uniformly. Ends when a finite space is exhausted.

    TPE and the Gaussian process propose one point at a time, and see what is pending as running trials: TPE counts them
    among the bad ones ("constant liar", Ginsbourger et al. 2010, "Kriging is well-suited to parallelize optimization"),
    the Gaussian process takes the mean over the losses that its model gives them (qLogEI, Ament et al. 2023). CMA-ES
    proposes a generation, waits until it is finished, and is told the whole history in order for each proposal.

    With several metrics these two are Optuna's own of several objectives: TPE takes for the good ones the first fronts,
    and of the last of them what dominates the most (Ozaki et al. 2022, "Multiobjective tree-structured Parzen
    estimator"; multivariate, which Optuna leaves out there); the Gaussian process has a model of each metric and
    expects the gain in hypervolume (qLogEHVI, Ament et al. 2023). Until a trial is complete they are those of one.
    CMA-ES has one loss.

    Source: Bergstra et al. 2011, "Algorithms for Hyper-Parameter Optimization" (TPE; Optuna's is multivariate);
    Optuna's GPSampler (Matérn 5/2, log expected improvement: Ament et al. 2023, "Unexpected Improvements to Expected
    Improvement"); Hansen 2016, "The CMA Evolution Strategy: A Tutorial".

    Example: TPE with startup 10 proposes ten random points, then one at a time from its model.
    """

    # Rises where the same settings, history and seed would give other points.
    REVISION: ClassVar[int] = 1

    settings: TpeSettings | GpSettings | CmaEsSettings
    space: Space
    seed: int

    def __post_init__(self) -> None:
        for dimension in self.space.dimensions if isinstance(self.settings, GpSettings) else ():
            if isinstance(dimension, Range) and dimension.integer and dimension.high - dimension.low > _MOST_LISTED:
                raise SpaceError(
                    f"space.{dimension.key}: has more than {_MOST_LISTED:,} whole numbers, which Optuna's gp lists one "
                    f"by one; give a smaller range, one without `integer`, or another strategy"
                )

    @property
    def round_size(self) -> int:
        """The number of points proposed together."""
        if not isinstance(self.settings, CmaEsSettings):
            return 1
        return self.settings.population or 4 + math.floor(3 * math.log(max(len(self.numeric), 1)))

    @property
    def numeric(self) -> tuple[Dimension, ...]:
        """The dimensions that CMA-ES models: ordered, with more than one value, in every point."""
        return tuple(d for d in self.space.dimensions if d.ordered and not d.when and len(d.values) != 1)

    @property
    def announcement(self) -> str:
        """One line on what is proposed."""
        if not isinstance(self.settings, CmaEsSettings):
            return f"{self.settings.name}: one point at a time, the first {self.settings.startup} at random"
        others = len(self.space.dimensions) - len(self.numeric)
        at_random = f"; {others} dimensions without order, or with a condition or one value, at random"
        return (
            f"cma_es: generations of {self.round_size} points in {len(self.numeric)} dimensions"
            f"{at_random if others else ''}"
        )

    @property
    def refuses_several(self) -> str | None:
        """Why it cannot search by several metrics, or within limits; None where it can."""
        return "models one loss, without limits" if isinstance(self.settings, CmaEsSettings) else None

    @property
    def learns(self) -> Learns:
        """CMA-ES by generations, the others by trial."""
        return "by_round" if isinstance(self.settings, CmaEsSettings) else "by_trial"

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point]:
        """Return `round_size` untried points, fewer where the space holds no more; CMA-ES none while any is pending."""
        if pending and self.learns == "by_round":
            return []
        tried = known.tried(pending)
        remaining = None if self.space.size is None else self.space.size - len(tried)
        rng = generator(self.seed, known, pending)
        if remaining is not None and remaining <= self.round_size:
            # Every remaining point is proposed.
            return draw_untried(self.space, rng, tried, self.round_size)
        sampler_seed = int(rng.integers(2**31))
        points = self._proposals.propose(known, pending, tried, self.round_size, sampler_seed)
        tried = {*tried, *(point_key(point) for point in points)}
        return [*points, *draw_untried(self.space, rng, tried, self.round_size - len(points))]

    @cached_property
    def _proposals(self) -> "Proposals":
        """The Optuna part, which caches the history; imported on the first proposal."""
        from hpo.engine.strategies.optuna_study import Proposals

        return Proposals(self.space, self.settings, self.round_size, [d.key for d in self.numeric])
