"""Settings of the strategies that use Optuna's samplers."""

from pydantic import Field

from hpo.engine.strategies.strategy import MOST, Settings


class TpeSettings(Settings):
    """Settings of the tree-structured Parzen estimator, described in conf/strategy/tpe.yaml."""

    startup: int = Field(ge=1, le=MOST)
    candidates: int = Field(ge=1, le=MOST)
    patience: int = Field(ge=0, le=MOST)


class GpSettings(Settings):
    """Settings of Bayesian optimisation with a Gaussian process, described in conf/strategy/gp.yaml."""

    startup: int = Field(ge=1, le=MOST)
    patience: int = Field(ge=0, le=MOST)


class CmaEsSettings(Settings):
    """Settings of CMA-ES, described in conf/strategy/cma_es.yaml.

    If `population` is None, its size comes from Hansen 2016, "The CMA Evolution Strategy: A Tutorial", equation 48.
    """

    # With fewer than four points, the recombination (equations 49 to 51) would divide by zero.
    population: int | None = Field(ge=4, le=MOST)
    patience: int = Field(ge=0, le=MOST)
