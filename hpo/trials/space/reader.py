"""Reads a space from the configuration; refuses an invalid space with an error that names the key."""

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
"""The fields that a dimension may have."""

# Names at the top level of a space that hold rules and first points, and usually no dimension.
_RESERVED = ("require", "first")
# Types of values that are no dimension and contain none.
_PLAIN = (str, int, float, bool, type(None))


def is_leaf(branch: Mapping[str, Any]) -> bool:
    """Return whether a branch of a space is a dimension; otherwise, it is a group of dimensions.

    A branch is a dimension if both of these conditions hold:

    - At least one key of the branch is in `FIELDS`, and its value is neither a mapping nor an object that describes a
      dimension, such as `hpo.log(...)`.
    - Each key not in `FIELDS` has a plain value (text, number, true/false or null), or looks like a misspelled field.
    """
    # An object with `to_dict` is a dimension in a short form, such as `hpo.log(...)`.
    is_field = any(
        name in FIELDS and not (isinstance(value, Mapping) or hasattr(value, "to_dict"))
        for name, value in branch.items()
    )
    return is_field and all(
        name in FIELDS or isinstance(value, _PLAIN) or nearest(str(name), FIELDS) for name, value in branch.items()
    )


def leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the dimensions of a space as the user wrote them, each with its path, a tuple of names."""
    for name, branch in tree.items():
        inner = (*path, str(name))
        if isinstance(branch, Mapping) and branch and not is_leaf(branch):
            yield from leaves(branch, inner)
        else:
            yield inner, branch


def parted(tree: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the dimensions of a space, and its special keys: `require` (rules) and `first` (points to try first).

    If the value of `require` or `first` describes a dimension, the key is not special: it is the name of the dimension.
    If a dimension has the name `first`, the space may give the points to try first within this dimension:
    `{"first": {"low": 0, "high": 1, "first": POINTS}}`.
    """
    keys = {".".join(path) for path, _ in leaves({k: v for k, v in tree.items() if k not in _RESERVED})}
    rules = {name: tree[name] for name, is_rule in _IS_RULE.items() if name in tree and is_rule(tree[name], keys)}
    branches = {name: branch for name, branch in tree.items() if name not in rules}
    first = branches.get("first")
    if isinstance(first, Mapping) and "first" in first and _are_points(first["first"], {*keys, "first"}):
        rules["first"] = first["first"]
        branches["first"] = {name: value for name, value in first.items() if name != "first"}
    return branches, rules


def with_first(tree: Mapping[str, Any], points: Sequence[Any]) -> dict[str, Any]:
    """Return the space with `points` as the points to try first: `{..., "first": points}`.

    If a dimension has the name `first`, put the points into this dimension: `{"first": {..., "first": points}}`.
    """
    dimension = parted(tree)[0].get("first")
    if dimension is None:
        return {**tree, "first": points}
    fields = dimension if isinstance(dimension, Mapping) else {"values": dimension}
    return {**tree, "first": {**fields, "first": points}}


def _are_rules(value: Any, keys: Collection[str]) -> bool:
    """Return True if the value of the key `require` counts as rules, and False if it describes dimensions.

    A text counts as a rule, and an empty list counts as rules. Any other list counts as rules if it has only texts, and
    at least one text contains `<`, `>`, `=`, `%` or a key. A number, true/false or null also counts as a rule, so that
    the user gets the error message for rules.
    """
    if isinstance(value, _PLAIN):
        return True
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        return False
    return not value or any(set("<>=%") & set(text) or {*re.findall(r"[\w.]+", text)} & {*keys} for text in value)


def _are_points(value: Any, keys: Collection[str]) -> bool:
    """Return True if the value of the key `first` counts as points, and False if it describes dimensions.

    A point is the text `default` or a mapping of searched keys to values. The key `first` can have a point or a list of
    points as its value. Two kinds of invalid values also count as points, so that the user gets an error message about
    points:
        - any other plain value (text, number, true/false or null);
        - any other mapping that contains only plain values and does not describe a dimension.
    """
    if isinstance(value, _PLAIN):
        return True
    if isinstance(value, list | tuple):
        return all(isinstance(p, Mapping) or (isinstance(p, str) and nearest(p, ("default",))) for p in value)
    if not isinstance(value, Mapping) or isinstance(value.get("choices", value.get("values")), list | tuple):
        return False
    if flatten(value).keys() <= {*keys}:
        return True
    has_leaf = {"low", "high"} <= value.keys() or any(isinstance(v, Mapping) and is_leaf(v) for v in value.values())
    return not has_leaf and all(isinstance(each, _PLAIN) for each in flatten(value).values())


_IS_RULE = {"require": _are_rules, "first": _are_points}


_MOST_POINTS = 100_000
# The largest whole number in a range. The record stores values of a range as floats, which cannot represent all larger
# whole numbers.
_LARGEST_WHOLE = 2**53


def space_from_dict(
    tree: Mapping[str, Any], fixed: Mapping[str, Value] | None = None, members: Sequence[Point] | None = None
) -> Space:
    """Return the space that a tree describes; the tree is nested like the objective's configuration.

    Each leaf of the tree is a dimension, written as a dict with `values`, with `choices`, or with `low` and `high`. A
    dict with `low` and `high` may also have `log`, `integer`, `points` and `step`. Any dimension may have `when` and
    `default`. A list is short for `values`. At the top level, `require` holds rules between dimensions (see
    `constraints.py`), and `first` holds the first points (see `first_points.py`).

    Args:
        tree: the tree.
        fixed: the values of the objective's configuration by dotted key.
        members: all existing points if only some combinations of values exist; None = all combinations exist.

    Raises:
        SpaceError: the space is not valid; the message names the dimension, the given and the allowed values.
    """
    fixed = fixed or {}
    branches, rules = parted(tree)
    dimensions = tuple(_dimension(".".join(path), branch) for path, branch in leaves(branches))
    if not dimensions:
        raise SpaceError("space: has no dimension; give at least one, such as space.training.lr.values=[0.001,0.01]")
    keys = [d.key for d in dimensions]
    if twice := [key for key, number in Counter(keys).items() if number > 1]:
        raise SpaceError(f"space.{twice[0]}: is given twice, as a dotted name and nested; give it once")
    _check_conditions(dimensions)
    required = rules.get("require") or ()
    texts = [required] if isinstance(required, str) else required
    if not isinstance(texts, Sequence):
        raise SpaceError(f"space.require: must be an expression or a list of expressions, given {required!r}")
    space = Space(dimensions, tuple(read_constraint(text, keys, fixed) for text in texts))
    if members is not None:
        space = replace(space, members=tuple(filter(None, (_member(space, point) for point in members))))
    _refuse_unsatisfiable(space)
    return replace(space, first=first_points(rules.get("first") or (), space, fixed))


def _member(space: Space, point: Point) -> Point | None:
    """Return a point with only its active dimensions; convert each value to the type of its dimension.

    Return None if a value is missing or not allowed.
    """
    if not all(d.key in point and allows(d, point[d.key]) for d in space.dimensions if space.active(d, point)):
        return None
    return {d.key: canonical(d, point[d.key]) for d in space.dimensions if space.active(d, point)}


def _refuse_unsatisfiable(space: Space) -> None:
    """Refuse rules that no point keeps: test all points if their number is known, else random points."""
    if not space.constraints and space.members is None:
        return
    rng = np.random.default_rng(0)
    keeps = space.size > 0 if space.size is not None else any(space.contains(space.draw(rng)) for _ in range(10))
    if not keeps:
        rules = " and ".join(f"'{constraint.text}'" for constraint in space.constraints) or "the ranges"
        raise SpaceError(f"space.require: found no point that keeps {rules}; loosen the rules, or widen the ranges")


def overridden(described: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the space that an objective describes, overridden by the dimensions in the configuration."""
    merged = dict(described)
    for name, branch in own.items():
        before = merged.get(name)
        is_inner = isinstance(before, Mapping) and not is_leaf(before) and isinstance(branch, Mapping)
        merged[name] = overridden(before, branch) if is_inner and isinstance(before, Mapping) else branch
    return merged


def _dimension(key: str, written: Any) -> Dimension:
    where = f"space.{key}"
    is_list = isinstance(written, Sequence) and not isinstance(written, str)
    fields: Any = {"values": written} if is_list else written
    if not isinstance(fields, Mapping):
        raise SpaceError(
            f"{where}: must be a list or a mapping, given {written!r}; a mapping must have 'values', 'choices', or "
            f"both 'low' and 'high'; a constant belongs in config= (in a shell: +{key}=VALUE)"
        )
    if not fields:
        raise SpaceError(f"{where}: is empty; give values, choices, or low and high")
    for name in fields:
        if name not in FIELDS:
            raise SpaceError(
                f"{where}: has the unknown field '{name}'; allowed: {', '.join(FIELDS)}{nearest(name, FIELDS)}"
            )
    kinds = [name for name in ("values", "choices", "low") if fields.get(name) is not None]
    if fields.get("high") is not None and "low" not in kinds:
        raise SpaceError(f"{where}: has 'high' but no 'low'; give both")
    if len(kinds) != 1:
        present = " and ".join(kinds) or "none of them"
        raise SpaceError(f"{where}: must have exactly one of values, choices, low/high, given {present}")
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
        raise SpaceError(f"{where}.default: must be a value of the dimension, given {fields['default']!r}")
    return replace(dimension, default=canonical(dimension, fields["default"]))


def _finite(where: str, kind: str, values: Any) -> tuple[Value, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise SpaceError(f"{where}.{kind}: must be a list, given {values!r}")
    if not values:
        raise SpaceError(f"{where}.{kind}: is an empty list; give at least one value")
    if len(values) > _MOST_POINTS:
        raise SpaceError(
            f"{where}.{kind}: must have at most {_MOST_POINTS:,} values, given {len(values):,}; give a range"
        )
    for value in values:
        _refuse_invalid(f"{where}.{kind}", value)
        if kind == "values" and isinstance(value, list | tuple | Mapping):
            raise SpaceError(
                f"{where}.values: must hold values that can be ordered, not lists or mappings, given {value!r}; use "
                f"'choices'"
            )
    identities: set[str] = set()
    for value in values:
        if identity(value) in identities:
            raise SpaceError(f"{where}.{kind}: {value!r} is listed twice; give every value once")
        identities.add(identity(value))
    texts = {canonical_text(value) for value in values if isinstance(value, list | tuple | Mapping)}
    if both := texts.intersection(value for value in values if isinstance(value, str)):
        raise SpaceError(
            f"{where}.{kind}: the text {both.pop()!r} is the JSON of another choice, and the record cannot "
            f"distinguish the two; change the text"
        )
    if kind == "values" and not _is_monotonic(values):
        raise SpaceError(f"{where}.values: must be in order, given {list(values)}; sort them, or use 'choices'")
    return tuple(map(as_value, values))


def identity(value: Any) -> str:
    """Return a text that is the same for equal values, including 1 and 1.0."""
    return canonical_text(float(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def _refuse_invalid(where: str, value: Any) -> None:
    """Raise SpaceError if JSON cannot represent a value, or if it has a whole number beyond 2^53 or -2^53."""
    if isinstance(value, float) and not math.isfinite(value):
        raise SpaceError(f"{where}: must hold finite numbers, given {value!r}")
    _refuse_rounded(where, value)
    if isinstance(value, Mapping) and not all(isinstance(name, str) for name in value):
        raise SpaceError(f"{where}: the keys of a mapping must be texts, given {value!r}")
    if not isinstance(value, int | float | str | bool | list | tuple | Mapping | None):
        raise SpaceError(f"{where}: must hold numbers, texts, true/false, lists or mappings, given {value!r}")
    if isinstance(value, list | tuple | Mapping):
        for inner in value.values() if isinstance(value, Mapping) else value:
            _refuse_invalid(where, inner)


def _refuse_rounded(where: str, value: Any) -> None:
    """Refuse a whole number that is too large to be represented exactly by a float."""
    if isinstance(value, int) and abs(value) > _LARGEST_WHOLE:
        raise SpaceError(
            f"{where}: whole numbers must be between -2^53 and 2^53 ({_LARGEST_WHOLE}), given {value}; floats cannot "
            f"hold larger whole numbers exactly; give a number nearer to 0, or search the number's exponent"
        )


def _is_monotonic(values: Sequence[Value]) -> bool:
    """Return False if all values are numbers, and these are neither ascending nor descending; otherwise True."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return len(numbers) < len(values) or numbers in (sorted(numbers), sorted(numbers, reverse=True))


def _range(key: str, fields: Mapping[str, Any], when: Condition) -> Dimension:
    where = f"space.{key}"
    low, high, log, integer = (fields.get(name) for name in ("low", "high", "log", "integer"))
    for name, flag in (("log", log), ("integer", integer)):
        if flag is not None and not isinstance(flag, bool):
            raise SpaceError(f"{where}.{name}: must be true or false, given {flag!r}")
    for name, bound in (("low", low), ("high", high)):
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not -math.inf < bound < math.inf:
            raise SpaceError(f"{where}.{name}: must be a finite number, given {bound!r}")
        if integer and bound != int(bound):
            raise SpaceError(f"{where}.{name}: must be a whole number if integer is true, given {bound!r}")
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if low >= high:
        raise SpaceError(f"{where}: low must be below high, given low {low!r} and high {high!r}")
    for name, bound in (("low", low), ("high", high)):
        _refuse_rounded(f"{where}.{name}", int(bound) if integer else bound)
    if not math.isfinite(float(high) - float(low)):
        raise SpaceError(f"{where}: high minus low must be below 1.8e308, given low {low!r} and high {high!r}")
    if log and low <= 0:
        raise SpaceError(f"{where}: low must be above 0 if log is true, given {low!r}")
    points = fields.get("points")
    if (step := fields.get("step")) is not None:
        if log or points is not None:
            other = "log" if log else "points"
            raise SpaceError(f"{where}.step: cannot be combined with '{other}'; remove one of them")
        return Values(key, _stepped(where, low, high, integer, step), when)
    if points is None:
        return Range(key, low, high, bool(log), bool(integer), when)
    return Values(key, _spaced(where, low, high, bool(log), bool(integer), points), when)


def _spaced(where: str, low: float, high: float, log: bool, integer: bool, points: Any) -> tuple[Value, ...]:
    """Return `points` evenly spaced values from `low` to `high`, both included; with `log`, on a logarithmic scale."""
    if isinstance(points, bool) or not isinstance(points, int) or not 2 <= points <= _MOST_POINTS:
        raise SpaceError(
            f"{where}.points: must be a whole number of at least 2 and at most {_MOST_POINTS:,}, given {points!r}"
        )
    spaced = np.geomspace(low, high, points) if log else np.linspace(low, high, points)
    # Round to ten significant digits, because rounding errors would make values hard to read and keys unstable.
    values: list[Value] = [round(v) if integer else float(f"{v:.10g}") for v in spaced.tolist()]
    if len(set(values)) < points:
        raise SpaceError(
            f"{where}.points: must be lower, given {points}; rounding leaves only {len(set(values))} different values"
        )
    return tuple(values)


def _stepped(where: str, low: float, high: float, integer: bool | None, step: Any) -> tuple[Value, ...]:
    """Return low, low + step and so on, up to high.

    The values are integers if `integer` is true, or if it is None and both low and step are integers.
    """
    if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step <= high - low:
        raise SpaceError(f"{where}.step: must be a number above 0 and at most high - low, given {step!r}")
    if integer and step != int(step):
        raise SpaceError(f"{where}.step: must be a whole number if integer is true, given {step!r}")
    # Allow for rounding errors: 3 * 0.1 exceeds 0.3.
    steps = (high - low) / step + 1e-9
    if steps >= _MOST_POINTS + 1:
        raise SpaceError(
            f"{where}.step: must divide the range into at most {_MOST_POINTS:,} steps, given {steps:,.0f} steps; give "
            f"a larger step, or remove 'step'"
        )
    count = math.floor(steps) + 1
    if integer or (integer is None and isinstance(low, int) and isinstance(step, int)):
        return tuple(int(low) + int(step) * place for place in range(count))
    values = tuple(float(f"{low + step * place:.10g}") for place in range(count))
    if len(set(values)) < count:
        raise SpaceError(f"{where}.step: must be larger, given {step!r}; rounding makes some values equal")
    return values


def _condition(where: str, when: Any) -> Condition:
    if not isinstance(when, Mapping):
        raise SpaceError(f"{where}.when: must be {{other.key: [values]}}, given {when!r}")
    return {
        key: tuple(v) if isinstance(v, Sequence) and not isinstance(v, str) else (v,)
        for key, v in flatten(when).items()
    }


def _check_conditions(dimensions: Sequence[Dimension]) -> None:
    """Refuse conditions that form a cycle, or that name an unsearched key, an impossible value or a later dimension.

    Also refuse conditions on a continuous range.
    """
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
                raise SpaceError(
                    f"{where}: must name values of '{parent}', given {impossible or 'an empty list'}; give "
                    f"values that '{parent}' can have"
                )
            if not by_key[parent].values:
                raise SpaceError(
                    f"{where}: '{parent}' must have 'values', 'points' or 'step', because a number from a continuous "
                    f"range is almost never exactly one of {list(allowed)}"
                )
        _refuse_cycle(dimension, by_key)
        # A point is built in the order of the dimensions, so the values in a condition must be known by then.
        if later := [parent for parent in dimension.when if keys.index(parent) > place]:
            raise SpaceError(
                f"{where}: '{later[0]}' must come before '{dimension.key}'; write '{later[0]}' first; if overrides "
                f"cannot change the order, use a space file of your own"
            )


def _refuse_cycle(dimension: Dimension, by_key: Mapping[str, Dimension], path: tuple[str, ...] = ()) -> None:
    if dimension.key in path:
        raise SpaceError(
            f"space.{dimension.key}.when: the conditions form a cycle: {' -> '.join((*path, dimension.key))}; "
            "remove one of these conditions"
        )
    for key in dimension.when:
        if key in by_key:
            _refuse_cycle(by_key[key], by_key, (*path, dimension.key))
