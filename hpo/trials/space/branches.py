"""The branches of a written space: which are dimensions, which only lead to some, and which are rules and points."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from hpo.config.keys import flatten
from hpo.errors import nearest

FIELDS = ("values", "choices", "low", "high", "log", "integer", "points", "step", "when", "default")
"""What a dimension may hold."""

# Names at the top of a space that are not dimensions.
_RESERVED = ("require", "first")
# What neither is a dimension nor holds one.
_PLAIN = (str, int, float, bool, type(None))


def is_leaf(branch: Mapping[str, Any]) -> bool:
    """Return whether a branch of a space is a dimension, and its names are fields.

    They are names of a user's where one beside them is no field, holds a dimension, and is no mistyped field.
    """
    # What has `to_dict` is a dimension in a short form of Python's: `hpo.log(...)`.
    is_field = any(
        name in FIELDS and not (isinstance(value, Mapping) or hasattr(value, "to_dict"))
        for name, value in branch.items()
    )
    return is_field and all(
        name in FIELDS or isinstance(value, _PLAIN) or nearest(str(name), FIELDS) for name, value in branch.items()
    )


def leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return the dimensions as they are written, each with the names that lead to it; at the top all are names."""
    for name, branch in tree.items():
        inner = (*path, str(name))
        if isinstance(branch, Mapping) and branch and not is_leaf(branch):
            yield from leaves(branch, inner)
        else:
            yield inner, branch


def parted(tree: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the branches of a space with dimensions, and its `require` and `first`, where those are not dimensions."""
    keys = {".".join(path) for path, _ in leaves({k: v for k, v in tree.items() if k not in _RESERVED})}
    rules = {name: tree[name] for name, says in _SAYS.items() if name in tree and says(tree[name], keys)}
    branches = {name: branch for name, branch in tree.items() if name not in rules}
    first = branches.get("first")
    if isinstance(first, Mapping) and "first" in first and _are_points(first["first"], {*keys, "first"}):
        rules["first"] = first["first"]
        branches["first"] = {name: value for name, value in first.items() if name != "first"}
    return branches, rules


def with_first(tree: Mapping[str, Any], points: Sequence[Any]) -> dict[str, Any]:
    """Return the space with these points to try first."""
    dimension = parted(tree)[0].get("first")
    if dimension is None:
        return {**tree, "first": points}
    fields = dimension if isinstance(dimension, Mapping) else {"values": dimension}
    return {**tree, "first": {**fields, "first": points}}


def _are_rules(given: Any, keys: Collection[str]) -> bool:
    """Return whether `require` holds rules: a text, or a list of texts of which one compares or names a key."""
    if isinstance(given, _PLAIN):
        return True
    if not isinstance(given, list | tuple) or not all(isinstance(text, str) for text in given):
        return False
    return not given or any(set("<>=%") & set(text) or {*re.findall(r"[\w.]+", text)} & {*keys} for text in given)


def _are_points(given: Any, keys: Collection[str]) -> bool:
    """Return whether `first` holds points: `default`, a list of that or mappings, or a mapping of searched keys."""
    if isinstance(given, _PLAIN):
        return True
    if isinstance(given, list | tuple):
        return all(isinstance(p, Mapping) or (isinstance(p, str) and nearest(p, ("default",))) for p in given)
    if not isinstance(given, Mapping) or isinstance(given.get("choices", given.get("values")), list | tuple):
        return False
    if flatten(given).keys() <= {*keys}:
        return True
    has_leaf = {"low", "high"} <= given.keys() or any(isinstance(v, Mapping) and is_leaf(v) for v in given.values())
    return not has_leaf and all(isinstance(value, _PLAIN) for value in flatten(given).values())


_SAYS = {"require": _are_rules, "first": _are_points}
