"""Strategies that use Optuna's samplers: TPE, Gaussian process and CMA-ES."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.strategies.optuna_settings import CmaEsSettings, GpSettings, TpeSettings
from hpo.engine.strategies.strategy import Learns, generator
from hpo.errors import SpaceError
from hpo.formatting import format_count
from hpo.trials.history import History
from hpo.trials.space.dimensions import Dimension, Range
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Trial

if TYPE_CHECKING:
    from hpo.engine.strategies.optuna_study import Proposals

# Optuna's Gaussian process lists the whole numbers of a range in memory; this many take 80 MB.
_MOST_LISTED = 10_000_000


@dataclass(frozen=True)
class OptunaModel:
    """Propose points with Optuna's TPE, Gaussian process or CMA-ES sampler, which gets the trials as an Optuna study.

    First points: TPE and the Gaussian process draw `startup` points uniformly. CMA-ES starts from a normal distribution
    in the middle of the space, with a standard deviation of a sixth of each range. Encoding: ordered values are ranks,
    so the sampler knows their order but not their spacing; choices are categories. TPE models conditional dimensions
    separately; the other two samplers draw them at random. CMA-ES also draws choices at random.

    A failed trial is passed to Optuna as complete with an infinite loss. If it were passed with Optuna's state FAIL,
    the sampler would ignore it and propose the same bad region again. For TPE and the Gaussian process, a failed trial
    also violates a constraint. A trial that exceeds a limit of the study violates another constraint; the value of this
    constraint is how far the trial exceeds its limits. Optuna decides which of two trials with equal losses is better.

    A point that was tried before or is outside of the space is rejected: Optuna gets the point's loss if the loss is
    known, else a failure. Then the sampler proposes again. After more than `patience` rejections in a row, the missing
    points are drawn uniformly. The search ends when a finite space is exhausted.

    TPE and the Gaussian process propose one point at a time, and get pending trials as running. TPE counts running
    trials as bad ones ("constant liar", Ginsbourger et al. 2010, "Kriging is well-suited to parallelize optimization").
    The Gaussian process averages over the losses that its model predicts for running trials (qLogEI, Ament et al.
    2023). CMA-ES proposes a whole generation and waits until all trials of the generation have ended. For each
    proposal, CMA-ES gets the whole history in order.

    With several metrics, the search uses Optuna's multi-objective TPE and Gaussian process. TPE chooses its good
    trials front by front. If a front has more trials than TPE still needs, TPE takes the trials that add the most
    hypervolume (Ozaki et al. 2022, "Multiobjective tree-structured Parzen estimator"). With several metrics,
    Optuna's default is to model each dimension separately. Here, TPE always models all unconditional dimensions
    together (multivariate). The Gaussian process models each metric, and maximizes the expected gain in hypervolume
    (qLogEHVI, Ament et al. 2023). Before the first trial is complete, TPE and the Gaussian process work as in a search
    with one metric. CMA-ES supports only one metric.

    Source: Bergstra et al. 2011, "Algorithms for Hyper-Parameter Optimization" (TPE, which Optuna made multivariate);
    Optuna's GPSampler (Matérn 5/2, log expected improvement: Ament et al. 2023, "Unexpected Improvements to Expected
    Improvement"); Hansen 2016, "The CMA Evolution Strategy: A Tutorial".

    Example: TPE with startup 10 proposes ten random points, then one point at a time from its model.
    """

    REVISION: ClassVar[int] = 1

    settings: TpeSettings | GpSettings | CmaEsSettings
    space: Space
    seed: int

    def __post_init__(self) -> None:
        for dimension in self.space.dimensions if isinstance(self.settings, GpSettings) else ():
            if isinstance(dimension, Range) and dimension.integer and dimension.high - dimension.low > _MOST_LISTED:
                raise SpaceError(
                    f"space.{dimension.key}: must have at most {_MOST_LISTED:,} whole numbers, because Optuna's gp "
                    f"lists them one by one; give a smaller range, a range without `integer`, or another strategy"
                )

    @property
    def round_size(self) -> int:
        """The number of points that are proposed together."""
        if not isinstance(self.settings, CmaEsSettings):
            return 1
        return self.settings.population or 4 + math.floor(3 * math.log(max(len(self.numeric), 1)))

    @property
    def numeric(self) -> tuple[Dimension, ...]:
        """The dimensions in the model of CMA-ES: they are ordered, have no condition, and have more than one value."""
        return tuple(d for d in self.space.dimensions if d.ordered and not d.when and len(d.values) != 1)

    @property
    def announcement(self) -> str:
        """One line of text about the proposals."""
        if not isinstance(self.settings, CmaEsSettings):
            return f"{self.settings.name}: one point at a time, the first {self.settings.startup} at random"
        modeled = format_count(len(self.numeric), "dimension*")
        others = len(self.space.dimensions) - len(self.numeric)
        rest = f"{format_count(others, 'dimension*')} (without order, with a condition, or with one value) at random"
        return f"cma_es: generations of {self.round_size} points in {modeled}{f'; {rest}' if others else ''}"

    @property
    def refuses_several(self) -> str | None:
        """Why the sampler cannot search with several metrics or with a limit; None if the sampler can."""
        return "supports only one metric, and no limits" if isinstance(self.settings, CmaEsSettings) else None

    @property
    def learns(self) -> Learns:
        """`by_round` for CMA-ES, whose rounds are generations; `by_trial` for the other samplers."""
        return "by_round" if isinstance(self.settings, CmaEsSettings) else "by_trial"

    def propose(self, known: History, pending: Sequence[Trial]) -> Sequence[Point]:
        """Return `round_size` untried points, or all that are left; for CMA-ES, no points while a trial is pending."""
        if pending and self.learns == "by_round":
            return []
        tried = known.tried(pending)
        remaining = None if self.space.size is None else self.space.size - len(tried)
        rng = generator(self.seed, known, pending)
        if remaining is not None and remaining <= self.round_size:
            return draw_untried(self.space, rng, tried, self.round_size)
        sampler_seed = int(rng.integers(2**31))
        points = self._proposals.propose(known, pending, tried, self.round_size, sampler_seed)
        tried = {*tried, *(point_key(point) for point in points)}
        return [*points, *draw_untried(self.space, rng, tried, self.round_size - len(points))]

    @cached_property
    def _proposals(self) -> "Proposals":
        """The sampler with its cache of the history; made at the first proposal, because Optuna is slow to import."""
        from hpo.engine.strategies.optuna_study import Proposals

        return Proposals(self.space, self.settings, self.round_size, [d.key for d in self.numeric])
