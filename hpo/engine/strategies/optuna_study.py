"""Optuna's side of its samplers: the history as an Optuna study in memory, and points asked of a sampler."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, assert_never

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from hpo.engine.space.dimensions import Dimension, Range, Value
from hpo.engine.space.space import Point, Space, point_key
from hpo.engine.strategies.optuna_settings import CmaEsSettings, GpSettings, TpeSettings
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Trial


class Proposals:
    """Asks a sampler for points, and remembers how the history reads as Optuna's trials.

    Args:
        space: where the points lie.
        settings: which sampler, and how it is set.
        population: points in a generation of CMA-ES.
        numeric: keys of the dimensions that CMA-ES models.
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
        self._told: list[tuple[str, float]] = []
        self._frozen: list[FrozenTrial] = []

    def asked(self, history: History, count: int, seed: int, patience: int) -> list[Point]:
        """Return up to `count` new points of the space; fewer when `patience` proposals in a row were not."""
        with _quiet(), _one_thread() if isinstance(self._settings, GpSettings) else nullcontext():
            study = self._study(history)
            # A new one: telling it the history has used up random numbers, as many as were new in it.
            study.sampler = self._sampler(seed)
            losses = {trial.key: trial.loss for trial in history}
            points: dict[str, Point] = {}
            misses = 0
            while len(points) < count and misses <= patience:
                trial = study.ask()
                point = _suggested(self._space, trial)
                key = point_key(point)
                if key not in losses and key not in points and self._space.contains(point):
                    # It stays RUNNING in Optuna's eyes, so that the sampler keeps away from it.
                    points[key] = point
                    misses = 0
                    continue
                misses += 1
                if key in losses:
                    study.tell(trial, losses[key])
                else:
                    study.tell(trial, state=TrialState.FAIL)
        return list(points.values())

    def _study(self, history: History) -> optuna.Study:
        """Return a new study that holds the history, and nothing of what was asked after it."""
        if self._told != [(trial.key, trial.loss) for trial in history[: len(self._told)]]:
            self._told, self._frozen = [], []
        study = optuna.create_study(sampler=self._sampler(0))
        study.add_trials(self._frozen)
        for trial in history[len(self._told) :]:
            self._told.append((trial.key, trial.loss))
            if self._space.contains(trial.point):
                self._tell(study, trial)
                self._frozen.append(study.get_trials(deepcopy=False)[-1])
        return study

    def _tell(self, study: optuna.Study, trial: Trial) -> None:
        params = {key: encoded(self._space[key], value) for key, value in trial.point.items()}
        distributions = {key: self._distributions[key] for key in params}
        if isinstance(self._settings, CmaEsSettings):
            study.enqueue_trial(params)
            asked = study.ask(distributions)
            # Its state lies in attributes that it gives a trial when it samples, which it does when first needed:
            # with every value given, not at all.
            _ = asked.relative_params
            study.tell(asked, trial.loss)
        else:
            study.add_trial(create_trial(params=params, distributions=distributions, value=trial.loss))

    def _sampler(self, seed: int) -> BaseSampler:
        settings = self._settings
        match settings:
            case TpeSettings():
                return TPESampler(n_startup_trials=settings.startup, n_ei_candidates=settings.candidates, seed=seed)
            case GpSettings():
                return GPSampler(n_startup_trials=settings.startup, seed=seed)
            case CmaEsSettings():
                return _CmaEs(self._numeric, self._population, seed)
        assert_never(settings)


class _CmaEs(CmaEsSampler):
    """CMA-ES that knows its dimensions from the start.

    Optuna's infers them from the first finished trials, and the whole first round would be drawn at random and
    then be of no use to it.
    """

    def __init__(self, numeric: dict[str, BaseDistribution], population: int, seed: int) -> None:
        super().__init__(n_startup_trials=0, popsize=population, seed=seed)
        self._numeric = numeric

    def infer_relative_search_space(self, _study: optuna.Study, _trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._numeric


def distribution(dimension: Dimension) -> BaseDistribution:
    """Return how the samplers see the dimension: ordered values as their ranks, choices as the places of a list."""
    if isinstance(dimension, Range):
        if dimension.integer:
            return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
        return FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    if dimension.ordered:
        return IntDistribution(0, len(dimension.values) - 1)
    return CategoricalDistribution(range(len(dimension.values)))


def encoded(dimension: Dimension, value: Value) -> Value:
    """Return the parameter that stands for the value; the inverse of `decoded`."""
    if isinstance(dimension, Range):
        return value
    # True equals 1 in Python, and both may be among the values.
    kinds = [(isinstance(v, bool), v) for v in dimension.values]
    return kinds.index((isinstance(value, bool), value))


def decoded(dimension: Dimension, parameter: Any) -> Value:
    """Return the value that a sampler's parameter stands for."""
    if not isinstance(dimension, Range):
        return dimension.values[int(parameter)]
    return int(parameter) if dimension.integer else float(parameter)


def _suggested(space: Space, trial: optuna.Trial) -> Point:
    """Return the point that the trial is given: each active dimension, parents before children."""
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
    """Silence what is known here: experimental parts are used, dimensions are drawn apart, infinite losses come."""
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
    """Keep the linear algebra of the Gaussian process to one thread.

    Its matrices are small: with two threads on two busy cores a proposal took 30 times as long, since NumPy's,
    SciPy's and torch's threads wait for each other. And sums do not depend on the number of cores then.
    """
    # A library that is loaded later would not be limited.
    import scipy.optimize  # noqa: F401
    import torch  # noqa: F401
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
