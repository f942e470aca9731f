"""Converts the history to an Optuna study in memory, and gets proposals from Optuna's samplers."""

import copy
import math
import warnings
from collections.abc import Collection, Container, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, assert_never

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, TPESampler
from optuna.storages import InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from hpo.engine.strategies.optuna_settings import CmaEsSettings, GpSettings, TpeSettings
from hpo.trials.history import History
from hpo.trials.space.dimensions import Dimension, Range, Value, rank_of
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Trial

# The names of the constraints; a value above 0 violates one.
_CAN_BE_TRAINED, _KEEPS_LIMITS = "can be trained", "keeps the limits"


class Proposals:
    """Gets points from an Optuna sampler, and caches the converted history.

    Only CMA-ES uses `population` (the number of points per generation) and `numeric` (the keys of the modeled
    dimensions).
    """

    def __init__(
        self,
        space: Space,
        settings: TpeSettings | GpSettings | CmaEsSettings,
        population: int,
        numeric: Sequence[str],
    ) -> None:
        self._space = space
        self._settings = settings
        self._population = population
        self._distributions = {d.key: distribution(d) for d in space.dimensions}
        self._numeric = {key: self._distributions[key] for key in numeric}
        self._forget(1, frozenset())

    def _forget(self, num_metrics: int, constraints: frozenset[str]) -> None:
        self._read = History()
        self._frozen: list[FrozenTrial] = []
        self._by_key: dict[str, Trial] = {}
        self._num_metrics = num_metrics
        self._constraints = constraints

    def propose(
        self, known: History, pending: Sequence[Trial], tried: Collection[str], count: int, seed: int
    ) -> list[Point]:
        """Return up to `count` points of the space whose keys are not in `tried`.

        Return fewer if the sampler proposes too many unusable points in a row.
        """
        with _quiet(), _one_thread() if isinstance(self._settings, GpSettings) else nullcontext():
            study = self._study(known)
            for running in pending:
                study.add_trial(self._frozen_trial(running, TrialState.RUNNING, None))
            # `_study` has consumed random numbers of its sampler, the more the more trials it converted. So use a new
            # sampler, with a fresh seed.
            study.sampler = self._sampler(seed)
            points: dict[str, Point] = {}
            misses = 0
            while len(points) < count and misses <= self._settings.patience:
                trial = study.ask()
                point = _suggested(self._space, trial)
                key = point_key(point)
                if key not in tried and key not in points and self._space.contains(point):
                    # The trial stays RUNNING in Optuna's study, so that the sampler avoids it.
                    points[key] = point
                    misses = 0
                    continue
                misses += 1
                if key in self._by_key:
                    self._set_constraints(trial, self._by_key[key])
                    study.tell(trial, self._losses(self._by_key[key]))
                else:
                    study.tell(trial, state=TrialState.FAIL)
        return list(points.values())

    def _study(self, known: History) -> optuna.Study:
        """Return an Optuna study with a history's trials; convert only those added since the previous call."""
        added = known.since(self._read)
        if added is None:
            self._forget(known.num_metrics, frozenset())
            added = known
        constraints = self._constraints | self._violated(added)
        if constraints != self._constraints or known.num_metrics != self._num_metrics:
            self._forget(known.num_metrics, constraints)
            added = known
        # Empty until all trials are converted, so that an exception causes a full retry.
        self._read = History()
        directions = [StudyDirection.MINIMIZE] * self._num_metrics
        study = optuna.create_study(
            storage=_SharingStorage(self._frozen), sampler=self._sampler(0), directions=directions
        )
        for trial in added:
            self._by_key[trial.key] = trial
            if self._space.contains(trial.point):
                self._tell(study, trial)
        self._read, self._frozen = known, study.get_trials(deepcopy=False)
        return study

    def _tell(self, study: optuna.Study, trial: Trial) -> None:
        if isinstance(self._settings, CmaEsSettings):
            params = self._params(trial)
            study.enqueue_trial(params)
            enqueued = study.ask({key: self._distributions[key] for key in params})
            # CMA-ES samples on the first access to `relative_params`, and then stores its state in the trial. Because
            # all values are given, nothing else accesses this attribute.
            _ = enqueued.relative_params
            study.tell(enqueued, trial.loss)
        else:
            frozen = self._frozen_trial(trial, TrialState.COMPLETE, self._losses(trial))
            self._set_constraints(frozen, trial)
            study.add_trial(frozen)

    def _losses(self, trial: Trial) -> Sequence[float]:
        """Return one loss per metric; infinite if the trial is not complete."""
        return trial.losses if trial.state == "complete" else [math.inf] * self._num_metrics

    def _violated(self, trials: Sequence[Trial]) -> set[str]:
        """Return the names of the constraints that at least one of the trials violates; for CMA-ES, none."""
        if isinstance(self._settings, CmaEsSettings):
            return set()
        return {name for trial in trials for name, value in _violations(trial).items() if value > 0}

    def _set_constraints(self, target: FrozenTrial | optuna.Trial, trial: Trial) -> None:
        """Pass a trial's constraint values to Optuna, but only for constraints that some trial of the study violates.

        The other constraints are left out, because the sampler fits a model for each constraint. All trials of the
        study get the same constraints, because Optuna requires this.
        """
        for name, value in _violations(trial).items():
            if name in self._constraints:
                target.set_constraint(name, value)

    def _params(self, trial: Trial) -> dict[str, Value]:
        return {key: encoded(self._space[key], value) for key, value in trial.point.items()}

    def _frozen_trial(self, trial: Trial, state: TrialState, losses: Sequence[float] | None) -> FrozenTrial:
        params = self._params(trial)
        return create_trial(
            state=state,
            params=params,
            distributions={key: self._distributions[key] for key in params},
            values=losses,
        )

    def _sampler(self, seed: int) -> BaseSampler:
        settings = self._settings
        match settings:
            case TpeSettings():
                # With several metrics, Optuna would by default model each parameter separately, which is slower and
                # finds a worse front.
                return TPESampler(
                    n_startup_trials=settings.startup,
                    n_ei_candidates=settings.candidates,
                    seed=seed,
                    multivariate=True,
                )
            case GpSettings():
                return GPSampler(n_startup_trials=settings.startup, seed=seed)
            case CmaEsSettings():
                return _CmaEs(self._numeric, self._population, seed)
        assert_never(settings)


class _SharingStorage(InMemoryStorage):
    """An in-memory storage that begins with the trials `first`; it does not copy them, so that proposals are fast."""

    def __init__(self, first: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._first = first

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        trial_id = super().create_new_trial(study_id, template_trial)
        # Make the number unique: samplers weigh trials by number, and recognize the trial that they sample by number.
        self.get_trial(trial_id).number += len(self._first)
        return trial_id

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        trials = [*self._first, *super().get_all_trials(study_id, deepcopy=False)]
        if states is not None:
            trials = [trial for trial in trials if trial.state in states]
        return copy.deepcopy(trials) if deepcopy else trials


def _violations(trial: Trial) -> dict[str, float]:
    """Return a trial's values of the constraints, from -1 to 1.

    A value above 0 is a violation; a failed trial has the largest value, 1.
    """
    return {
        _CAN_BE_TRAINED: 1.0 if trial.state == "failed" else -1.0,
        # A failed trial counts as within the limits, because it is not known to exceed one. A trial within the limits
        # gets -0.1, because the step from -1 to 0 would be far larger than most excesses. With -1, the Gaussian process
        # exceeded a limit in 86 % of its proposals; with -0.1, in 61 %.
        _KEEPS_LIMITS: trial.excess / (1 + trial.excess) if trial.excess > 0 else -0.1,
    }


class _CmaEs(CmaEsSampler):
    """CMA-ES that models the given dimensions.

    Optuna's CmaEsSampler infers the dimensions from the first finished trials. So without this class, it draws the
    first generation at random, and cannot learn from that generation.
    """

    def __init__(self, numeric: dict[str, BaseDistribution], population: int, seed: int) -> None:
        super().__init__(n_startup_trials=0, popsize=population, seed=seed)
        self._numeric = numeric

    def infer_relative_search_space(self, _study: optuna.Study, _trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._numeric


def distribution(dimension: Dimension) -> BaseDistribution:
    """Return the distribution of a dimension for the samplers; ordered values become ranks, choices become indices."""
    if isinstance(dimension, Range):
        if dimension.integer:
            return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
        return FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    if dimension.ordered:
        return IntDistribution(0, len(dimension.values) - 1)
    return CategoricalDistribution(range(len(dimension.values)))


def encoded(dimension: Dimension, value: Value) -> Value:
    """Return the parameter that stands for a value in the sampler; the inverse of `decoded`."""
    return value if isinstance(dimension, Range) else rank_of(dimension.values, value)


def decoded(dimension: Dimension, parameter: Any) -> Value:
    """Return the value that a sampler's parameter stands for."""
    if not isinstance(dimension, Range):
        return dimension.values[int(parameter)]
    return int(parameter) if dimension.integer else float(parameter)


def _suggested(space: Space, trial: optuna.Trial) -> Point:
    """Return the point that an Optuna trial suggests, with only the active dimensions."""
    point: dict[str, Value] = {}
    for dimension in space.dimensions:
        if space.active(dimension, point):
            point[dimension.key] = decoded(dimension, _suggest(trial, dimension))
    return point


def _suggest(trial: optuna.Trial, dimension: Dimension) -> Any:
    match distribution(dimension):
        case FloatDistribution(low=low, high=high, log=log):
            return trial.suggest_float(dimension.key, low, high, log=log)
        case IntDistribution(low=low, high=high, log=log):
            return trial.suggest_int(dimension.key, low, high, log=log)
        case CategoricalDistribution(choices=choices):
            return trial.suggest_categorical(dimension.key, choices)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence expected warnings of Optuna: experimental features, independently drawn dimensions, infinite losses."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            warnings.filterwarnings("ignore", "Clip non-finite values")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit linear algebra to one thread, so that sums are reproducible.

    One thread is also faster: two threads took 30 times as long on busy cores.
    """
    # Load these libraries first, because the limit does not apply to libraries that are loaded later.
    import scipy.optimize  # noqa: F401
    import torch  # noqa: F401
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
