"""Dimensions as Optuna knows them: its distributions."""

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from hpo.engine.space.dimensions import Dimension, Range


def distribution(dimension: Dimension) -> BaseDistribution:
    """Return a dimension as Optuna stores it: finite ones categorical, so that their values read as they are."""
    if not isinstance(dimension, Range):
        return CategoricalDistribution(dimension.values)
    if dimension.integer:
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log)
