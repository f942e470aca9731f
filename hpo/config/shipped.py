"""Where the configuration files lie that come with the toolkit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hpo
from hpo.config.documents import read_yaml


def shipped_dir() -> Path:
    """Return the folder: `hpo/conf` where hpo is installed, `conf` beside hpo in the repository.

    By its path, since a package called `conf` could as well be a user's.
    """
    package = Path(hpo.__file__).parent
    installed = package / "conf"
    return installed if installed.is_dir() else package.parent / "conf"


def names_of(group: str) -> list[str]:
    """Return the names of the configurations in a group."""
    return sorted(path.stem for path in (shipped_dir() / group).glob("*.yaml"))


def shipped(group: str, name: str) -> dict[str, Any]:
    """Return the configuration of this name in a group; what it takes from other groups is None."""
    values = read_yaml(shipped_dir() / group / f"{name}.yaml")
    return {key: None if isinstance(value, str) and value.startswith("${") else value for key, value in values.items()}


def strategy_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a strategy, from its name, one of conf/strategy, and differences from what that has.

    One of the user's own has its defaults in its class.
    """
    name = given.get("name")
    if name not in names_of("strategy"):
        return dict(given)
    defaults = shipped("strategy", str(name))
    return {**defaults, **given, "name": defaults["name"]}
