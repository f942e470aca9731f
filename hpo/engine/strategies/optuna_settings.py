"""Settings of the strategies that are Optuna's samplers."""

from pydantic import Field

from hpo.engine.strategies.strategy import MOST, Settings


class TpeSettings(Settings):
    """Settings of the tree-structured Parzen estimator.

    Attributes:
        startup: trials drawn at random before there is a model.
        candidates: draws from the model of good points, of which the most promising is proposed.
        patience: unusable proposals in a row (tried before, or against the rules of the space) before the
            point is drawn uniformly.
    """

    startup: int = Field(ge=1, le=MOST)
    candidates: int = Field(ge=1, le=MOST)
    patience: int = Field(ge=0, le=MOST)


class GpSettings(Settings):
    """Settings of Bayesian optimisation with a Gaussian process; as for TPE."""

    startup: int = Field(ge=1, le=MOST)
    patience: int = Field(ge=0, le=MOST)


class CmaEsSettings(Settings):
    """Settings of CMA-ES.

    Attributes:
        population: points in a generation, which is finished before the next; None is 4 + floor(3 ln n) for n ordered
            dimensions (Hansen 2016, "The CMA Evolution Strategy: A Tutorial", equation 48).
        patience: as for TPE.
    """

    # With fewer than four points the recombination of eq. 49-51 divides by zero.
    population: int | None = Field(ge=4, le=MOST)
    patience: int = Field(ge=0, le=MOST)
