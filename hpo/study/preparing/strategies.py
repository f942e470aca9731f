"""Finds strategies by name: the toolkit's, those of installed packages, and a user's own in the working directory."""

import importlib.metadata
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hpo.config.study_config import explain
from hpo.engine.strategies import STRATEGIES, Strategy, StrategyType
from hpo.engine.strategies import make_strategy as make_known
from hpo.errors import ConfigError, nearest
from hpo.trials.space.space import Space
from hpo.workers.objective.path import GROUPS
from hpo.workers.objective.resolution import import_named

_PARTS = ("propose", "Settings", "announcement", "learns")


def strategy_type(name: Any) -> StrategyType:
    """Return the class of a strategy (the toolkit's, an entry point, `package.module:Class`), and of its settings."""
    if not isinstance(name, str):
        raise ConfigError(f"strategy.name: must be the name of a strategy, or package.module:Class, given {name!r}")
    if name in STRATEGIES:
        return STRATEGIES[name]
    offered = {point.name: point for point in importlib.metadata.entry_points(group=GROUPS["strategy"])}
    path = offered[name].value if name in offered else name
    module_name, colon, class_name = path.partition(":")
    if not colon:
        known = [*STRATEGIES, *offered]
        raise ConfigError(
            f"strategy: must be one of {', '.join(known)}, or package.module:Class, given {name!r}"
            f"{nearest(name, known)}"
        )
    module = import_named("strategy", path, module_name, str(Path.cwd()))
    return type_of(getattr(module, class_name, None), path)


def type_of(strategy: Any, path: str) -> StrategyType:
    """Return a class, and that of its settings; ConfigError, which calls it `path`, where it is no strategy."""
    is_strategy = inspect.isclass(strategy) and all(hasattr(strategy, name) for name in _PARTS)
    if not is_strategy:
        raise ConfigError(
            f"strategy: {path} is no strategy: it must be a class with {', '.join(_PARTS)}; "
            f"`hpo.testing.check_strategy` says what else"
        )
    return strategy.Settings, strategy


def make_strategy(settings: Mapping[str, Any], space: Space, seed: int) -> Strategy:
    """Return the strategy that `settings["name"]` names; ConfigError names the setting at fault."""
    try:
        return make_known(settings, space, seed, strategy_type(settings.get("name")))
    except ValidationError as error:
        raise ConfigError(explain(error, "strategy.")) from error
