"""The whole configuration of a search that is given from Python."""

from collections.abc import Mapping
from typing import Any

from hpo.config.keys import at, flatten, refuse_unknown, replaced
from hpo.config.shipped import names_of, shipped, strategy_settings, with_mlflows_own
from hpo.config.study_config import SEARCH_SECTIONS
from hpo.engine.space.peers import refuse_whole
from hpo.engine.space.reader import space_from_dict
from hpo.engine.space.shorthand import written_out
from hpo.engine.space.written import as_meant
from hpo.errors import ConfigError, nearest

# Names at the top of a space that are no dimensions.
_RULES = ("require", "first")
_MISSING = object()
_SETTABLE = tuple(name for name in SEARCH_SECTIONS if name not in ("objective", "space"))


def own_tree(space: Mapping[str, Any], config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the tree that a plain function is called with, before a point is written into it.

    Args:
        space: as `plain_space` returns it.
        config: constants, and default values of what is searched.

    Raises:
        ConfigError: a name is that of a section of the search.
    """
    flat = flatten(config or {})
    searched = {key: None for key in _keys(space) if at(flat, key, _MISSING) is _MISSING}
    for key, text in flat.items():
        if inner := [name for name in searched if name.startswith(f"{key}.") and text != {}]:
            raise ConfigError(f"space.{inner[0]}: '{key}' is {text!r} in config, and has no keys; make it a dict there")
    tree = replaced(config or {}, searched)
    for name in tree:
        if name in SEARCH_SECTIONS:
            raise ConfigError(
                f"space, config: '{name}' is a section of the search's own configuration; give yours another name"
            )
    return tree


def plain_space(space: Mapping[str, Any], config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the space in the form of conf/space, from a form with `hpo.log`, tuples and lists of texts.

    Where `config` has a value for each dimension, that point is tried first.
    """
    for argument, value in (("space", space), ("config", config or {})):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{argument}: must be a dict, given a {type(value).__name__}")
    refuse_whole(space)
    written = {name: branch if name in _RULES else written_out(branch, f"space.{name}") for name, branch in space.items()}
    plain = as_meant(written)
    flat = flatten(config or {})
    if "first" not in plain and all(at(flat, key, _MISSING) is not _MISSING for key in _keys(plain)):
        plain["first"] = ["default"]
    return plain


def search_tree(
    objective: str, space: Mapping[str, Any], own: Mapping[str, Any], strategy: str | Mapping[str, Any]
) -> dict[str, Any]:
    """Return a whole configuration: the defaults of conf/, and what is given."""
    if not isinstance(strategy, str | Mapping):
        raise ConfigError(f"strategy: must be a name, or a dict with `name` and settings, given {strategy!r}")
    given = {"name": strategy} if isinstance(strategy, str) else dict(strategy)
    return {
        **own,
        "objective": objective,
        "space": dict(space),
        "strategy": strategy_settings(given),
        "study": shipped("study", "default"),
        "split": shipped("split", "default"),
        "dispatch": shipped("dispatch", "ray"),
        "track": with_mlflows_own(shipped("track", "mlflow")),
        "report": shipped("report", "default"),
    }


def with_settings(tree: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with these values, by dotted key such as `study.lanes`.

    `dispatch` and `track`, alone, choose one of conf/dispatch and conf/track.

    Raises:
        ConfigError: there is no such key.
    """
    tree = dict(tree)
    if missing := [name for name in _SETTABLE if name not in tree]:
        raise ConfigError(f"objective: is no whole configuration, such as of hpo.compose: '{missing[0]}' is missing")
    for group in ("dispatch", "track"):
        if isinstance(settings.get(group), str):
            known = names_of(group)
            if settings[group] not in known:
                given = settings[group]
                raise ConfigError(
                    f"settings: {group} must be one of {', '.join(known)}, given {given!r}{nearest(given, known)}"
                )
            chosen = shipped(group, settings[group])
            tree[group] = with_mlflows_own(chosen) if group == "track" else chosen
    values = {key: value for key, value in settings.items() if key not in ("dispatch", "track")}
    refuse_unknown(values, {name: tree[name] for name in _SETTABLE}, "settings")
    return replaced(tree, values)


def _keys(space: Mapping[str, Any]) -> set[str]:
    """Return the dotted keys of the dimensions."""
    return set(space_from_dict({name: branch for name, branch in space.items() if name not in _RULES}).keys)
