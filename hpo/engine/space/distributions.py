"""Dimensions as Optuna's distributions."""

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from hpo.engine.space.dimensions import Dimension, Range, stored


def distribution(dimension: Dimension) -> BaseDistribution:
    """Return Optuna's distribution of a dimension: categorical for finite ones, so that it stores the values.

    Of lists and mappings it has the texts: see `stored`.
    """
    if not isinstance(dimension, Range):
        return CategoricalDistribution(list(map(stored, dimension.values)))
    if dimension.integer:
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log)
