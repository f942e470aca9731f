"""Dotted keys of nested mappings, such as `model.num_layers`; and the keys of the objective's own tree."""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hpo.errors import ConfigError, nearest

# The sections of the search, which are never sent to workers. All other keys belong to the objective's own tree.
SEARCH_SECTIONS = ("study", "objective", "space", "strategy", "split", "dispatch", "track", "report")

# In a plain tree, the objective's own tree is below this key if one of its names is also the name of a section.
OWN = "objective_config"

# The groups of conf/ for the toolkit's own trainer.
GROUPS = ("data", "model", "training")


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of the tree by dotted key, in order; `{}` is a leaf."""
    flat: dict[str, Any] = {}
    for name, branch in tree.items():
        key = f"{prefix}{name}"
        if isinstance(branch, Mapping) and branch:
            flat |= flatten(branch, f"{key}.")
        else:
            flat[key] = branch
    return flat


def replaced(tree: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the tree with the values in `changes`, which are given by dotted key.

    A new value replaces the whole old value, even if the old value is a mapping. A new key creates nested mappings.
    Raise ConfigError for a key inside a list.
    """
    copy: dict[str, Any] = copy_plain(tree)
    for key, value in changes.items():
        *path, last = path_of(copy, key) or key.split(".")
        node = copy
        for name in path:
            if not isinstance(node.get(name), Mapping | list):
                node[name] = {}
            node = node[name]
            if isinstance(node, list):
                raise ConfigError(f"{key}: is inside a list; set the whole list")
        node[last] = copy_plain(value)
    return copy


def is_number(value: Any) -> bool:
    """Return whether a plain value is a number; true and false do not count as numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def copy_plain(value: Any) -> Any:
    """Return a deep copy of plain lists and dicts; the caller may change the copy."""
    return map_leaves(value, lambda leaf: leaf)


def map_leaves(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return the tree as plain dicts and lists, with a function applied to every leaf."""
    if isinstance(tree, Mapping):
        return {name: map_leaves(inner, change) for name, inner in tree.items()}
    return [map_leaves(inner, change) for inner in tree] if isinstance(tree, list) else change(tree)


def at(flat: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """Return the leaf or the mapping at a dotted key of a flattened tree; `default` if the key does not exist."""
    if key in flat:
        return flat[key]
    inner = {name.removeprefix(f"{key}."): value for name, value in flat.items() if name.startswith(f"{key}.")}
    return replaced({}, inner) if inner else default


def path_of(tree: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    """Return the names on the path to a dotted key, or None if the key does not exist. A name may contain dots."""
    if key in tree:
        return (key,)
    for name, branch in tree.items():
        if isinstance(branch, Mapping) and key.startswith(f"{name}."):
            inner = path_of(branch, key[len(name) + 1 :])
            if inner is not None:
                return (name, *inner)
    return None


def at_path(tree: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Return the leaf or branch at a path that `path_of` has returned."""
    return functools.reduce(lambda branch, name: branch[name], path, tree)


def refuse_inside_of_list(tree: Mapping[str, Any], key: str) -> None:
    """Raise ConfigError if a searched key names an item of a list; only a list as a whole can be searched."""
    names = key.split(".")
    for place, name in enumerate(names):
        path = path_of(tree, ".".join(names[:place])) if name.isdigit() else None
        if path and isinstance(at_path(tree, path), list):
            whole = ".".join(path)
            raise ConfigError(f"space.{key}: is inside a list; search '{whole}' as a whole, with choices")


def within(key: str, other: str) -> bool:
    """Return whether a dotted key is equal to another key, or below it."""
    return key == other or key.startswith(f"{other}.")


def refuse_unknown(changes: Mapping[str, Any], tree: Mapping[str, Any], what: str) -> None:
    """Raise ConfigError if `changes` is not a mapping, or if a dotted key in it is not a leaf of the tree.

    `what` names the argument in the message.
    """
    if not isinstance(changes, Mapping):
        raise ConfigError(f"{what}: must be a dict of values by dotted key, given {changes!r}")
    known = list(flatten(tree))
    for key in changes:
        if key not in known:
            if inner := [each for each in known if each.startswith(f"{key}.")]:
                raise ConfigError(f"{what}: '{key}' is a section; give its keys one by one, such as '{inner[0]}'")
            hint = nearest(key, known) or "; list the keys with `hpo search --cfg job`"
            raise ConfigError(f"{what}: there is no '{key}'{hint}")


def without(tree: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a copy of the tree without the leaf or branch at this dotted key."""
    name, *rest = path_of(tree, key) or (None,)
    if not rest:
        return {other: branch for other, branch in tree.items() if other != name}
    return {other: without(branch, ".".join(rest)) if other == name else branch for other, branch in tree.items()}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the dotted keys whose values differ, each with the old and the new value (None = absent)."""
    before, after = flatten(old), flatten(new)
    return {
        key: (before.get(key), after.get(key))
        for key in {**before, **after}
        if key not in before or key not in after or before[key] != after[key]
    }


def plain_own(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the objective's own keys as a tree, to put next to the sections of a configuration.

    If one of these keys is also the name of a section, or is `objective_config`, the tree has all of these keys below
    the key `objective_config`.
    """
    is_taken = any(name.partition(".")[0] in (*SEARCH_SECTIONS, OWN) for name in own)
    return {OWN: dict(own)} if is_taken else dict(own)


def own_part(tree: Mapping[str, Any], sections: Collection[str] = SEARCH_SECTIONS) -> dict[str, Any]:
    """Return the tree of the objective's own keys from a whole configuration; this is the inverse of `plain_own`."""
    own = {name: branch for name, branch in tree.items() if name not in sections}
    return dict(own[OWN]) if list(own) == [OWN] and isinstance(own[OWN], Mapping) else own


def own_key(key: str) -> str:
    """Convert a key of a configuration to the key in the objective's own tree; see `plain_own`."""
    return key.removeprefix(f"{OWN}.")


def typed_key(key: str) -> str:
    """Return what a user types on a command line to add `key` to the objective's own tree.

    If `key` is also the name of a group or a section, the user types `objective_config.` before `key`.
    """
    return f"{OWN}.{key}" if key in GROUPS or key.partition(".")[0] in SEARCH_SECTIONS else key
