"""Finds a strategy by its name: in the toolkit, in installed packages, or in a module of the working directory."""

import importlib.metadata
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hpo.config.study_config import explain
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
from hpo.workers.objective.path import GROUPS
from hpo.workers.objective.resolution import import_named

StrategyType = tuple[type[Settings], Any]
"""The class of a strategy's settings, and the class of the strategy; the latter takes settings, space and seed."""

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

# Strategies that train by amounts; they need an objective that can continue a training.
BY_AMOUNT = ("successive_halving", "hyperband", "asha")
# The attributes that a strategy class must have.
_ATTRIBUTES = ("propose", "Settings", "announcement", "learns")

__all__ = ["BY_AMOUNT", "STRATEGIES", "Strategy", "StrategyType", "find_strategy", "make_strategy", "strategy_type"]


def find_strategy(settings: Mapping[str, Any], space: Space, seed: int) -> Strategy:
    """Return the strategy named by `settings["name"]`, from the toolkit, an installed package or a user's module.

    Raises:
        ConfigError: there is no such strategy, or a setting is invalid or does not fit the space.
        SpaceError: the strategy cannot search this space.
    """
    try:
        return make_strategy(settings, space, seed, strategy_type(settings.get("name")))
    except ValidationError as error:
        raise ConfigError(explain(error, "strategy.")) from error


def strategy_type(name: Any) -> StrategyType:
    """Return two classes: the class of a strategy's settings, and the class of the strategy.

    `name` is the name of a toolkit strategy, the name of an installed entry point, or `package.module:Class`. Raise
    ConfigError if there is no such strategy.
    """
    if not isinstance(name, str):
        raise ConfigError(f"strategy.name: must be the name of a strategy, or package.module:Class, given {name!r}")
    if name in STRATEGIES:
        return STRATEGIES[name]
    installed = {point.name: point for point in importlib.metadata.entry_points(group=GROUPS["strategy"])}
    path = installed[name].value if name in installed else name
    module_name, colon, class_name = path.partition(":")
    if not colon:
        known = [*STRATEGIES, *installed]
        raise ConfigError(
            f"strategy: must be one of {', '.join(known)}, or package.module:Class, given {name!r}"
            f"{nearest(name, known)}"
        )
    module = import_named("strategy", path, module_name, str(Path.cwd()))
    if not hasattr(module, class_name):
        raise ConfigError(f"strategy: {module_name} has no '{class_name}'{nearest(class_name, vars(module))}")
    return type_of(getattr(module, class_name), path)


def type_of(strategy: Any, path: str) -> StrategyType:
    """Return two classes: the class of the strategy's settings, and `strategy`.

    Raise ConfigError if `strategy` is not a strategy class. `path` is the name of `strategy` in the error message.
    """
    is_strategy = inspect.isclass(strategy) and all(hasattr(strategy, name) for name in _ATTRIBUTES)
    if not is_strategy:
        raise ConfigError(
            f"strategy: {path} is no strategy: a strategy is a class with {', '.join(_ATTRIBUTES)}; "
            f"run `hpo.testing.check_strategy` to check a new strategy"
        )
    return strategy.Settings, strategy


def make_strategy(settings: Mapping[str, Any], space: Space, seed: int, found: StrategyType | None = None) -> Strategy:
    """Check the settings of a strategy, and return the strategy.

    If the space has first points, the strategy is wrapped in `FirstPoints`. `found` holds the strategy's classes;
    None = those of the toolkit's strategy named `settings["name"]`.

    Raises:
        ConfigError: the toolkit has no strategy of that name, or a setting does not fit the space.
        SpaceError: the strategy cannot search this space.
        pydantic.ValidationError: a setting is unknown, of the wrong type or out of bounds.
    """
    name = settings.get("name", "")
    if found is None and (not isinstance(name, str) or name not in STRATEGIES):
        hint = nearest(str(name), STRATEGIES)
        raise ConfigError(f"strategy: must be one of {', '.join(STRATEGIES)}, given {name!r}{hint}")
    settings_class, strategy_class = found or STRATEGIES[name]
    strategy: Strategy = strategy_class(settings_class.model_validate(dict(settings)), space, seed)
    return FirstPoints(strategy) if space.first else strategy
