"""The configuration files that come with the toolkit."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpo.config.documents import read_yaml
from hpo.config.secrets import redact
from hpo.errors import ConfigError
from hpo.package import PACKAGE, ROOT

MLFLOWS_OWN = {"uri": "MLFLOW_TRACKING_URI", "experiment": "MLFLOW_EXPERIMENT_NAME"}
"""For keys of the section `track`, the environment variables from which MLflow itself reads the same settings."""

WHOLE = "# @package _global_\n"
"""The first line of a file in a group, if the keys in the file are keys of the whole configuration."""

_KEY = re.compile(r"^(?P<indent> *)(?P<key>[a-z_0-9]+): *(?P<value>.*?)(?: +# ?(?P<meaning>.*))?$")
_OR_DEFAULT = re.compile(r"\$\{oc\.env:(\w+),(.*)\}")


def shipped_dir() -> Path:
    """Return the folder of the configuration files: `hpo/conf` of an installed hpo, or `conf` in the repository.

    Find the folder by path, not by import, because a user may have a package called `conf`.
    """
    installed = PACKAGE / "conf"
    return installed if installed.is_dir() else ROOT / "conf"


def names_of(group: str) -> list[str]:
    """Return the names of the configurations in a group."""
    return sorted(path.stem for path in (shipped_dir() / group).glob("*.yaml"))


def documented_keys(path: Path, group: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the dotted key, value and comment of each line that sets a value in a configuration file.

    `group` is the configuration group of the file, such as `strategy`; empty = the file belongs to no group.
    """
    text = path.read_text(encoding="utf-8")
    parents: list[tuple[int, str]] = [] if not group or WHOLE in text else [(-1, Path(group).name)]
    for line in text.splitlines():
        found = _KEY.match(line)
        if not found:
            continue
        indent = len(found["indent"])
        parents = [(depth, name) for depth, name in parents if depth < indent]
        if found["value"]:
            yield ".".join([*(name for _, name in parents), found["key"]]), found["value"], found["meaning"] or ""
        parents.append((indent, found["key"]))


def shipped(group: str, name: str) -> dict[str, Any]:
    """Return the shipped configuration `name` of a group; values that refer to other keys are None.

    A value `${oc.env:NAME,default}` becomes `${oc.env:NAME}` if the variable NAME is set; otherwise `default`. For the
    group `track`, see also `with_mlflows_own`.
    """
    values = read_yaml(shipped_dir() / group / f"{name}.yaml")
    values = {key: _without_reference(value) for key, value in values.items()}
    return with_mlflows_own(values) if group == "track" else values


def _without_reference(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("${"):
        return value
    of_environment = _OR_DEFAULT.fullmatch(value)
    if of_environment is None:
        return None
    name, default = of_environment.groups()
    return f"${{oc.env:{name}}}" if name in os.environ else default


def with_mlflows_own(track: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the references to MLflow's environment variables in the section `track`; return the section.

    The values of the variables replace the references. So the study keeps the same MLflow server, even if the variables
    change later. If the server's address contains a secret, the reference to the address stays.
    """
    values = dict(track)
    for key, name in MLFLOWS_OWN.items():
        value = os.environ.get(name, "")
        if values.get(key) == f"${{oc.env:{name}}}" and (key != "uri" or not redact({"track": {key: value}})[1]):
            values[key] = value
    return values


def is_from(name: str, value: str) -> bool:
    """Return whether `value` is the value of the environment variable `name`, or a reference to the variable."""
    return name in os.environ and value in (os.environ[name], f"${{oc.env:{name}}}")


def named_settings(strategy: Any) -> dict[str, Any]:
    """Return the settings of a strategy given in Python, including `name`; raise ConfigError if there is no name."""
    given = {"name": strategy} if isinstance(strategy, str) else strategy
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ConfigError(
            "strategy: must be a name, a dict with `name` and settings, or 'module:Class' for a class of your own, "
            f"given {strategy!r:.80}"
        )
    return dict(given)


def strategy_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a strategy: the given settings, completed by the defaults in conf/strategy.

    For a user's strategy, return the given settings alone, because the class of the strategy has the defaults.
    """
    name = given.get("name")
    if name not in names_of("strategy"):
        return dict(given)
    defaults = shipped("strategy", str(name))
    return {**defaults, **given, "name": defaults["name"]}
