"""Trials in Optuna's terms and back: distributions, states, directions and points, as its storages keep them."""

from collections.abc import Iterable, Mapping

from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from hpo.engine.space.dimensions import Dimension, Range, from_stored, to_stored
from hpo.engine.space.space import Point
from hpo.engine.trials.trial import Direction, State

STATES: Mapping[State, TrialState] = {
    "running": TrialState.RUNNING,
    "complete": TrialState.COMPLETE,
    "failed": TrialState.FAIL,
    "stopped": TrialState.PRUNED,
}
STATE_NAMES: Mapping[TrialState, State] = {state: name for name, state in STATES.items()}


def distribution(dimension: Dimension) -> BaseDistribution:
    """Return Optuna's distribution of a dimension: categorical for finite ones, so that it stores the values.

    Of lists and mappings it has the texts: see `to_stored`.
    """
    if not isinstance(dimension, Range):
        return CategoricalDistribution(list(map(to_stored, dimension.values)))
    if dimension.integer:
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def point_of(trial: FrozenTrial, dimensions: Iterable[Dimension]) -> Point:
    """Return the trial's values of these dimensions, without those that it does not have."""
    return {d.key: from_stored(d, trial.params[d.key]) for d in dimensions if d.key in trial.params}


def direction_of(study: Study) -> Direction:
    """Return which scores of an Optuna study are better."""
    return "maximize" if study.direction == StudyDirection.MAXIMIZE else "minimize"
