"""A strategy in one call, with the settings of conf/strategy by default."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from hpo.config.shipped import shipped
from hpo.config.study_config import explain
from hpo.engine.space.reader import space_from_dict
from hpo.engine.strategies import STRATEGIES, Strategy, make_strategy
from hpo.errors import ConfigError


def default_strategy(
    name: str, space: Mapping[str, Any], seed: int = 0, settings: Mapping[str, Any] | None = None
) -> Strategy:
    """Return a strategy over a space that is written as in the configuration.

    Args:
        name: one of `hpo.engine.strategies.STRATEGIES`.
        space: such as `{"lr": {"low": 1e-5, "high": 1e-2, "log": True}, "layers": [1, 2, 3]}`; nested names join
            with dots.
        seed: decides every point.
        settings: differences from conf/strategy/<name>.yaml.

    Raises:
        HpoError: naming the setting or the dimension at fault.
    """
    defaults: dict[str, Any] = {"name": name}
    if name in STRATEGIES:
        defaults = shipped("strategy", name)
    try:
        return make_strategy({**defaults, **(settings or {})}, space_from_dict(space), seed)
    except ValidationError as error:
        raise ConfigError(explain(error, "strategy.")) from error
