"""A strategy in one call, with the settings of conf/strategy by default."""

from collections.abc import Mapping
from typing import Any

from hpo.config.shipped import strategy_settings
from hpo.engine.space.reader import space_from_dict
from hpo.engine.space.written import as_meant
from hpo.engine.strategies import Strategy
from hpo.study.preparing.strategies import make_strategy


def default_strategy(
    name: str, space: Mapping[str, Any], seed: int = 0, settings: Mapping[str, Any] | None = None
) -> Strategy:
    """Return a strategy over a space that is written as in the configuration.

    Args:
        name: one of conf/strategy, of an installed package, or `package.module:Class`.
        space: such as `{"lr": {"low": 1e-5, "high": 1e-2, "log": True}, "layers": [1, 2, 3]}`; nested names join
            with dots.
        seed: decides every point.
        settings: differences from conf/strategy/<name>.yaml.

    Raises:
        HpoError: naming the setting or the dimension at fault.
    """
    return make_strategy(strategy_settings({**(settings or {}), "name": name}), space_from_dict(as_meant(space)), seed)
