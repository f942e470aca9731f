"""The configuration files that come with the toolkit."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpo.config.documents import read_yaml
from hpo.config.secrets import redact
from hpo.package import PACKAGE, ROOT

MLFLOWS_OWN = {"uri": "MLFLOW_TRACKING_URI", "experiment": "MLFLOW_EXPERIMENT_NAME"}
"""The environment variables that MLflow itself reads, by the keys of the section `track`."""

WHOLE = "# @package _global_\n"
"""Hydra's header of a file in a group that sets keys of the whole configuration."""

_KEY = re.compile(r"^(?P<indent> *)(?P<key>[a-z_0-9]+): *(?P<value>.*?)(?: +# ?(?P<meaning>.*))?$")
_OR_DEFAULT = re.compile(r"\$\{oc\.env:(\w+),(.*)\}")


def shipped_dir() -> Path:
    """Return the folder: `hpo/conf` of an installed hpo, `conf` next to hpo in the repository.

    It is found by path, because a package called `conf` could be a user's.
    """
    installed = PACKAGE / "conf"
    return installed if installed.is_dir() else ROOT / "conf"


def names_of(group: str) -> list[str]:
    """Return the names of the configurations in a group."""
    return sorted(path.stem for path in (shipped_dir() / group).glob("*.yaml"))


def documented_keys(path: Path, group: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the dotted key, the value and the comment of each line with a value; `group` is the group of the file."""
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
    """Return the configuration of this name in a group; values that refer to other groups are None."""
    values = read_yaml(shipped_dir() / group / f"{name}.yaml")
    return {key: _without_reference(value) for key, value in values.items()}


def _without_reference(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("${"):
        return value
    of_environment = _OR_DEFAULT.fullmatch(value)
    if of_environment is None:
        return None
    name, default = of_environment.groups()
    return f"${{oc.env:{name}}}" if name in os.environ else default


def with_mlflows_own(track: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section `track` with the values of MLflow's own variables, except an address with a password.

    So a study stays in the MLflow in which it began, even if the variables change later.
    """
    values = dict(track)
    for key, name in MLFLOWS_OWN.items():
        value = os.environ.get(name, "")
        if values.get(key) == f"${{oc.env:{name}}}" and (key != "uri" or not redact({"track": {key: value}})[1]):
            values[key] = value
    return values


def is_from(name: str, value: str) -> bool:
    """Return whether a value is the value of this environment variable, or a reference to it."""
    return name in os.environ and value in (os.environ[name], f"${{oc.env:{name}}}")


def strategy_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a strategy: the defaults of its name in conf/strategy with the given differences.

    A strategy of the user has its defaults in its class.
    """
    name = given.get("name")
    if name not in names_of("strategy"):
        return dict(given)
    defaults = shipped("strategy", str(name))
    return {**defaults, **given, "name": defaults["name"]}
