"""Reads a space from the configuration, with errors that name the faulty key."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hpo.config.keys import flatten
from hpo.errors import SpaceError, nearest
from hpo.trials.space.constraints import read_constraint
from hpo.trials.space.dimensions import (
    Choices,
    Condition,
    Dimension,
    Range,
    Value,
    Values,
    allows,
    as_value,
    canonical,
    canonical_text,
)
from hpo.trials.space.first_points import first_points
from hpo.trials.space.space import Point, Space

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


_MOST_POINTS = 100_000
# The record keeps the values of a range as floats, in which not every larger whole number exists.
_LARGEST_WHOLE = 2**53


def space_from_dict(
    tree: Mapping[str, Any], fixed: Mapping[str, Value] | None = None, members: Sequence[Point] | None = None
) -> Space:
    """Read a space that mirrors the trial's config tree; SpaceError names the dimension, what was given and is allowed.

    A leaf is a dict with `values`, `choices`, or `low` and `high` (with `log`, `integer`, `points`, `step`), and
    optionally `when` and `default`; a bare list is short for `values`. At the top, `require` holds rules between
    dimensions (see `constraints.py`), and `first` the points to try first (see `first_points.py`). `fixed` are the
    configuration's own values by dotted key; `members` all existing points, where only some combinations exist.
    """
    fixed = fixed or {}
    branches, rules = parted(tree)
    dimensions = tuple(_dimension(".".join(path), branch) for path, branch in leaves(branches))
    if not dimensions:
        raise SpaceError("space: it has no dimension; name at least one, such as space.training.lr.values=[0.001,0.01]")
    keys = [d.key for d in dimensions]
    if twice := [key for key, number in Counter(keys).items() if number > 1]:
        raise SpaceError(f"space.{twice[0]}: stands there twice, as one name with dots and nested; give it once")
    _check_conditions(dimensions)
    given = rules.get("require") or ()
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence):
        raise SpaceError(f"space.require: must be an expression or a list of them, given {given!r}")
    space = Space(dimensions, tuple(read_constraint(text, keys, fixed) for text in texts))
    if members is not None:
        space = replace(space, members=tuple(filter(None, (_member(space, point) for point in members))))
    _refuse_unsatisfiable(space)
    return replace(space, first=first_points(rules.get("first") or (), space, fixed))


def _member(space: Space, point: Point) -> Point | None:
    """Return a member with the space's own values; None where it is outside of the space."""
    if not all(d.key in point and allows(d, point[d.key]) for d in space.dimensions if space.active(d, point)):
        return None
    return {d.key: canonical(d, point[d.key]) for d in space.dimensions if space.active(d, point)}


def _refuse_unsatisfiable(space: Space) -> None:
    """Refuse rules that no point fulfils: all points are tested where countable, else a thousand at random."""
    if not space.constraints and space.members is None:
        return
    rng = np.random.default_rng(0)
    keeps = space.size > 0 if space.size is not None else any(space.contains(space.draw(rng)) for _ in range(10))
    if not keeps:
        rules = " and ".join(f"'{constraint.text}'" for constraint in space.constraints) or "the ranges"
        raise SpaceError(f"space.require: no point was found that keeps {rules}; loosen them, or widen the ranges")


def overridden(described: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the space that an objective describes, with dimensions replaced by those of the configuration."""
    merged = dict(described)
    for name, branch in given.items():
        before = merged.get(name)
        is_inner = isinstance(before, Mapping) and not is_leaf(before) and isinstance(branch, Mapping)
        merged[name] = overridden(before, branch) if is_inner and isinstance(before, Mapping) else branch
    return merged


def _dimension(key: str, written: Any) -> Dimension:
    where = f"space.{key}"
    is_list = isinstance(written, Sequence) and not isinstance(written, str)
    fields: Any = {"values": written} if is_list else written
    if not isinstance(fields, Mapping):
        raise SpaceError(f"{where}: must be a list or one of values / choices / low and high, given {written!r}")
    if not fields:
        raise SpaceError(f"{where}: is empty; give values, choices, or low and high")
    for name in fields:
        if name not in FIELDS:
            raise SpaceError(f"{where}: unknown field '{name}'; allowed: {', '.join(FIELDS)}{nearest(name, FIELDS)}")
    kinds = [name for name in ("values", "choices", "low") if fields.get(name) is not None]
    if fields.get("high") is not None and "low" not in kinds:
        raise SpaceError(f"{where}: has 'high' but no 'low'; give both")
    if len(kinds) != 1:
        given = " and ".join(kinds) or "none of them"
        raise SpaceError(f"{where}: must have exactly one of values, choices, low/high, given {given}")
    kind, when = kinds[0], _condition(where, fields.get("when") or {})
    dimension: Dimension
    if kind == "low":
        dimension = _range(key, fields, when)
    else:
        for name in ("high", "log", "integer", "points", "step"):
            if fields.get(name):
                raise SpaceError(f"{where}: '{name}' has no effect with '{kind}'; remove it")
        dimension = (Values if kind == "values" else Choices)(key, _finite(where, kind, fields[kind]), when)
    if "default" not in fields:
        return dimension
    if not allows(dimension, fields["default"]):
        raise SpaceError(f"{where}.default: {fields['default']!r} is not in the range; give one of its values")
    return replace(dimension, default=canonical(dimension, fields["default"]))


def _finite(where: str, kind: str, given: Any) -> tuple[Value, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise SpaceError(f"{where}.{kind}: must be a list, given {given!r}")
    if not given:
        raise SpaceError(f"{where}.{kind}: is an empty list; give at least one value")
    if len(given) > _MOST_POINTS:
        raise SpaceError(
            f"{where}.{kind}: must hold at most {_MOST_POINTS:,} values, given {len(given):,}; give a range"
        )
    for value in given:
        _refuse_no_value(f"{where}.{kind}", value)
        if kind == "values" and isinstance(value, list | tuple | Mapping):
            raise SpaceError(
                f"{where}.values: have an order, and hold no lists or mappings, given {value!r}; use 'choices'"
            )
    seen: set[str] = set()
    for value in given:
        if identity(value) in seen:
            raise SpaceError(f"{where}.{kind}: {value!r} is listed twice; give every value once")
        seen.add(identity(value))
    texts = {canonical_text(value) for value in given if isinstance(value, list | tuple | Mapping)}
    if both := texts.intersection(value for value in given if isinstance(value, str)):
        raise SpaceError(
            f"{where}.{kind}: the text {both.pop()!r} is JSON of another choice, and records do not tell them apart; "
            f"change the text"
        )
    if kind == "values" and not _is_monotonic(given):
        raise SpaceError(f"{where}.values: are not in order, given {list(given)}; sort them, or use 'choices'")
    return tuple(map(as_value, given))


def identity(value: Any) -> str:
    """Return the text in which equal values are equal, 1 and 1.0 too."""
    return canonical_text(float(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def _refuse_no_value(where: str, value: Any) -> None:
    """Refuse what is no JSON value: infinite numbers, keys that are no texts, objects."""
    if isinstance(value, float) and not math.isfinite(value):
        raise SpaceError(f"{where}: must hold finite numbers, given {value!r}")
    _refuse_rounded(where, value)
    if isinstance(value, Mapping) and not all(isinstance(name, str) for name in value):
        raise SpaceError(f"{where}: the keys of a mapping must be texts, given {value!r}")
    if not isinstance(value, int | float | str | bool | list | tuple | Mapping | None):
        raise SpaceError(f"{where}: must hold numbers, texts, true/false, lists or mappings, given {value!r}")
    if isinstance(value, list | tuple | Mapping):
        for inner in value.values() if isinstance(value, Mapping) else value:
            _refuse_no_value(where, inner)


def _refuse_rounded(where: str, value: Any) -> None:
    """Refuse a whole number that files of others, and records of a range, round."""
    if isinstance(value, int) and abs(value) > _LARGEST_WHOLE:
        raise SpaceError(
            f"{where}: must be a whole number of at most 2^53 ({_LARGEST_WHOLE}), which floats hold exactly, given "
            f"{value}; give a smaller one, or search its exponent"
        )


def _is_monotonic(given: Sequence[Value]) -> bool:
    """Return whether numbers rise or fall throughout; texts are in the order in which they are written."""
    numbers = [v for v in given if isinstance(v, int | float) and not isinstance(v, bool)]
    return len(numbers) < len(given) or numbers in (sorted(numbers), sorted(numbers, reverse=True))


def _range(key: str, fields: Mapping[str, Any], when: Condition) -> Dimension:
    where = f"space.{key}"
    low, high, log, integer = (fields.get(name) for name in ("low", "high", "log", "integer"))
    for name, bound in (("low", low), ("high", high)):
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound):
            raise SpaceError(f"{where}.{name}: must be a finite number, given {bound!r}")
        if integer and bound != int(bound):
            raise SpaceError(f"{where}.{name}: must be a whole number with integer: true, given {bound!r}")
    for name, flag in (("log", log), ("integer", integer)):
        if flag is not None and not isinstance(flag, bool):
            raise SpaceError(f"{where}.{name}: must be true or false, given {flag!r}")
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if low >= high:
        raise SpaceError(f"{where}: low must be below high, given low {low!r} and high {high!r}")
    for name, bound in (("low", low), ("high", high)):
        _refuse_rounded(f"{where}.{name}", int(bound) if integer else bound)
    if not math.isfinite(float(high) - float(low)):
        raise SpaceError(f"{where}: high minus low must be below 1.8e308, given low {low!r} and high {high!r}")
    if log and low <= 0:
        raise SpaceError(f"{where}: low must be above 0 with log: true, given {low!r}")
    points = fields.get("points")
    if (step := fields.get("step")) is not None:
        if log or points is not None:
            other = "log" if log else "points"
            raise SpaceError(f"{where}.step: is the distance of even values, and cannot be with '{other}'; remove one")
        return Values(key, _stepped(where, low, high, integer, step), when)
    if points is None:
        return Range(key, low, high, bool(log), bool(integer), when)
    return Values(key, _spaced(where, low, high, bool(log), bool(integer), points), when)


def _spaced(where: str, low: float, high: float, log: bool, integer: bool, points: Any) -> tuple[Value, ...]:
    """Return `points` values evenly (or log-) spaced over the range, both ends included."""
    if isinstance(points, bool) or not isinstance(points, int) or not 2 <= points <= _MOST_POINTS:
        raise SpaceError(
            f"{where}.points: must be a whole number of at least 2 and at most {_MOST_POINTS:,}, given {points!r}"
        )
    spaced = np.geomspace(low, high, points) if log else np.linspace(low, high, points)
    # Ten significant digits: the error in a float's last digits would make points unreadable and unstable as keys.
    values: list[Value] = [round(v) if integer else float(f"{v:.10g}") for v in spaced.tolist()]
    if len(set(values)) < points:
        raise SpaceError(
            f"{where}.points: only {len(set(values))} whole numbers fit, given {points}; give fewer points"
        )
    return tuple(values)


def _stepped(where: str, low: float, high: float, integer: bool | None, step: Any) -> tuple[Value, ...]:
    """Return low, low + step and so on up to high; whole numbers where low and step are, unless `integer` is false."""
    if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step <= high - low:
        raise SpaceError(f"{where}.step: must be a number above 0 and at most high - low, given {step!r}")
    if integer and step != int(step):
        raise SpaceError(f"{where}.step: must be a whole number with integer: true, given {step!r}")
    # The sum of many steps is inexact: 3 x 0.1 exceeds 0.3.
    steps = math.floor((high - low) / step + 1e-9)
    if steps > _MOST_POINTS:
        raise SpaceError(f"{where}.step: gives {steps:,} steps, at most {_MOST_POINTS:,}; give a larger one, or none")
    count = steps + 1
    if integer or (integer is None and isinstance(low, int) and isinstance(step, int)):
        return tuple(int(low) + int(step) * place for place in range(count))
    values = tuple(float(f"{low + step * place:.10g}") for place in range(count))
    if len(set(values)) < count:
        raise SpaceError(f"{where}.step: {step!r} is too small beside {low!r} and {high!r}; give a larger one")
    return values


def _condition(where: str, given: Any) -> Condition:
    if not isinstance(given, Mapping):
        raise SpaceError(f"{where}.when: must be {{other.key: [values]}}, given {given!r}")
    return {
        key: tuple(v) if isinstance(v, Sequence) and not isinstance(v, str) else (v,)
        for key, v in flatten(given).items()
    }


def _check_conditions(dimensions: Sequence[Dimension]) -> None:
    """Refuse a condition on what is not searched, on what that never is, in a cycle, and on what comes after it."""
    by_key = {d.key: d for d in dimensions}
    keys = list(by_key)
    for place, dimension in enumerate(dimensions):
        where = f"space.{dimension.key}.when"
        for parent, allowed in dimension.when.items():
            if parent not in by_key:
                hint = nearest(parent, by_key)
                raise SpaceError(f"{where}: '{parent}' is not searched; allowed: {', '.join(by_key)}{hint}")
            impossible = [value for value in allowed if not allows(by_key[parent], value)]
            if impossible or not allowed:
                raise SpaceError(f"{where}: '{parent}' never takes {impossible or 'no value'}; use values of its range")
            if not by_key[parent].values:
                raise SpaceError(
                    f"{where}: '{parent}' is a range of fractions, and never exactly {list(allowed)}; give it a list "
                    f"of values, or points"
                )
        _refuse_cycle(dimension, by_key)
        # A point is built in the order of the dimensions.
        if later := [parent for parent in dimension.when if keys.index(parent) > place]:
            raise SpaceError(
                f"{where}: '{later[0]}' comes after it; write the parent first (in a space file of your own, which "
                f"sets the order of groups)"
            )


def _refuse_cycle(dimension: Dimension, by_key: Mapping[str, Dimension], seen: tuple[str, ...] = ()) -> None:
    if dimension.key in seen:
        raise SpaceError(
            f"space.{dimension.key}.when: the conditions form a cycle: {' -> '.join((*seen, dimension.key))}"
        )
    for key in dimension.when:
        if key in by_key:
            _refuse_cycle(by_key[key], by_key, (*seen, dimension.key))
