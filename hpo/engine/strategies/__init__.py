"""The strategies by name."""

from collections.abc import Mapping
from typing import Any

from hpo.engine.strategies.asha import Asha, AshaSettings
from hpo.engine.strategies.evolutionary import Evolutionary, EvolutionarySettings
from hpo.engine.strategies.first import FirstPoints
from hpo.engine.strategies.grid import GridSearch, GridSettings
from hpo.engine.strategies.halving import HalvingSettings, Hyperband, SuccessiveHalving, SuccessiveHalvingSettings
from hpo.engine.strategies.ladder import Ladder, LadderSettings
from hpo.engine.strategies.optuna_sampler import OptunaModel
from hpo.engine.strategies.optuna_settings import CmaEsSettings, GpSettings, TpeSettings
from hpo.engine.strategies.quasi_random import QmcSettings, QuasiRandom
from hpo.engine.strategies.random import RandomSearch, RandomSettings
from hpo.engine.strategies.shifting_window import ShiftingWindow, ShiftingWindowSettings
from hpo.engine.strategies.strategy import Settings, Strategy
from hpo.errors import ConfigError, nearest
from hpo.trials.space.space import Space

StrategyType = tuple[type[Settings], Any]
"""The class of a strategy's settings, and its own, which is called with settings, space and seed."""

STRATEGIES: Mapping[str, StrategyType] = {
    "grid": (GridSettings, GridSearch),
    "random": (RandomSettings, RandomSearch),
    "shifting_window": (ShiftingWindowSettings, ShiftingWindow),
    "evolutionary": (EvolutionarySettings, Evolutionary),
    "successive_halving": (SuccessiveHalvingSettings, SuccessiveHalving),
    "hyperband": (HalvingSettings, Hyperband),
    "asha": (AshaSettings, Asha),
    "tpe": (TpeSettings, OptunaModel),
    "gp": (GpSettings, OptunaModel),
    "cma_es": (CmaEsSettings, OptunaModel),
    "qmc": (QmcSettings, QuasiRandom),
    "ladder": (LadderSettings, Ladder),
}

# Strategies that train by amounts; they need an objective whose trainings can be continued.
BY_AMOUNT = ("successive_halving", "hyperband", "asha")

__all__ = ["BY_AMOUNT", "STRATEGIES", "Strategy", "StrategyType", "make_strategy"]


def make_strategy(
    settings: Mapping[str, Any], space: Space, seed: int, strategy_type: StrategyType | None = None
) -> Strategy:
    """Return the strategy that `settings["name"]` names, or that of `strategy_type`, with the other settings checked.

    Raises:
        ConfigError: there is no strategy of that name, or it does not fit the space.
        pydantic.ValidationError: a setting is unknown, of the wrong type or out of bounds.
    """
    name = settings.get("name", "")
    if strategy_type is None and (not isinstance(name, str) or name not in STRATEGIES):
        hint = nearest(str(name), STRATEGIES)
        raise ConfigError(f"strategy: must be one of {', '.join(STRATEGIES)}, given {name!r}{hint}")
    settings_class, strategy_class = strategy_type or STRATEGIES[name]
    strategy: Strategy = strategy_class(settings_class.model_validate(dict(settings)), space, seed)
    return FirstPoints(strategy) if space.first else strategy
