"""Reads the default configuration, and the points in `space.first`, which are tried before the strategy's points."""

from collections.abc import Mapping, Sequence
from typing import Any

from hpo.config.goals import SCALE
from hpo.config.keys import at, flatten
from hpo.config.study_config import StudyConfig
from hpo.errors import SpaceError, nearest
from hpo.trials.space.dimensions import Dimension, NoDefault, Range, Value, allows, canonical, from_stored
from hpo.trials.space.space import Point, Space, point_key

_SHOWN = 200
_MISSING = object()


class NoDefaultError(SpaceError):
    """A point lacks a key that has no default.

    If the point has no values at all, the error means that there is no default configuration.
    """

    def __init__(self, where: str, key: str) -> None:
        super().__init__(f"{where}: {key} is missing and has no default; give it a value")
        self.key = key


def first_points(written: Any, space: Space, fixed: Mapping[str, Value]) -> tuple[Point, ...]:
    """Return the points that `space.first` lists.

    Args:
        written: a point, the text "default", or a list of such entries. A point is a mapping of nested or dotted keys
            to values. The text stands for the default configuration; it is skipped if there is no default configuration
            or the space does not contain it.
        space: the space.
        fixed: the values of the objective's configuration by dotted key. If a point lacks a key, the key gets the
            default of its dimension. If the dimension has no default either, the key gets its value in `fixed`.

    Raises:
        NoDefaultError: a point lacks a key, and neither the key's dimension nor `fixed` has a value for it.
        SpaceError: a key is unknown or inactive, a value is outside of its range, a rule is broken, a point occurs
            twice or is not in `Space.members`, or `written` has another form.
    """
    entries = [written] if isinstance(written, str | Mapping) else written
    if not isinstance(entries, Sequence):
        raise SpaceError(f"space.first: must be a list of points or 'default', given {written!r}")
    points: dict[str, Point] = {}
    for place, entry in enumerate(entries):
        where = f"space.first[{place}]"
        if entry == "default":
            try:
                point = default_point(space, fixed)
            except SpaceError:
                continue
        else:
            point = read_point(where, entry, space, fixed)
        if point_key(point) in points:
            raise SpaceError(f"{where}: the point is listed twice; give every point once")
        points[point_key(point)] = point
    return tuple(points.values())


def default_point(space: Space, fixed: Mapping[str, Value]) -> Point:
    """Return the default configuration: the default of each dimension, else the dimension's value in `fixed`.

    `fixed` has the values of the objective's configuration by dotted key.

    Raises:
        NoDefaultError: a dimension has neither of these values, so there is no default configuration.
        SpaceError: the default configuration is not in the space.
    """
    return read_point("the default configuration", {}, space, fixed)


def read_point(where: str, entry: Any, space: Space, fixed: Mapping[str, Value]) -> Point:
    """Return the point that the mapping `entry` describes; `space`, `fixed` and errors are as for `first_points`.

    `where` begins each error message.

    Raises:
        NoDefaultError: a key is missing and has no default; this error is raised before errors about values.
    """
    if not isinstance(entry, Mapping):
        raise SpaceError(f"{where}: must be a point such as {{training.lr: 0.001}}, or 'default', given {entry!r}")
    values = given_values(where, entry, space)
    point: dict[str, Value] = {}
    outside = []
    for dimension in space.dimensions:
        if not space.active(dimension, point):
            continue
        default = at(fixed, dimension.key, _MISSING) if dimension.default is NoDefault else dimension.default
        value: Any = values.get(dimension.key, default)
        # A default of None means that there is no value, unless None is a value of the dimension.
        if value is _MISSING or (value is None and dimension.key not in values and not allows(dimension, None)):
            raise NoDefaultError(where, dimension.key)
        value = from_stored(dimension, value)
        if allows(dimension, value):
            value = canonical(dimension, value)
        else:
            outside.append(f"{dimension.key}={repr(value)[:_SHOWN]} is not in its range ({range_text(dimension)})")
        point[dimension.key] = value
    if outside:
        raise SpaceError(f"{where}: {outside[0]}; give a value in the range")
    inactive = [key for key in values if key not in point]
    if inactive:
        raise SpaceError(
            f"{where}: '{inactive[0]}' is inactive with these values, because of its 'when'; remove '{inactive[0]}'"
        )
    if not space.keeps_rules(point):
        fault = "breaks a rule of space.require" if space.members is None else "breaks a rule, or is not in the space"
        raise SpaceError(f"{where}: {dict(point)} {fault}; give another point")
    return point


def given_values(where: str, entry: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Turn a mapping with nested or dotted keys into a dict with dotted keys, and return the dict.

    Raises:
        SpaceError: a key is not searched.
    """
    flat = flatten(entry)
    values = {key: value for key in space.keys if (value := at(flat, key, _MISSING)) is not _MISSING}
    for key in flat:
        if not any(key == whole or key.startswith(f"{whole}.") for whole in values):
            raise SpaceError(
                f"{where}: '{key}' is not searched; allowed: {', '.join(space.keys)}{nearest(key, space.keys)}"
            )
    return values


def range_text(dimension: Dimension) -> str:
    """Return the allowed values of a dimension as text."""
    if isinstance(dimension, Range):
        return f"{'whole numbers ' if dimension.integer else ''}{dimension.low:g} to {dimension.high:g}"
    return ", ".join(f"{value:.6g}" if isinstance(value, float) else repr(value) for value in dimension.values)[:_SHOWN]


def default_of(space: Space, config: StudyConfig) -> Point | None:
    """Return the default configuration, at the target scale if there are scales.

    Return None if there is no default configuration, or if it is not in the space.
    """
    try:
        return default_at_target(space, config)
    except SpaceError:
        return None


def default_at_target(space: Space, config: StudyConfig) -> Point:
    """Return the default configuration, at the target scale if there are scales.

    Raises:
        NoDefaultError: there is no default configuration.
        SpaceError: the default configuration is not in the space.
    """
    point = default_point(space, flatten(config.objective_config))
    return point if config.study.scales is None else {**point, SCALE: len(config.study.scales)}


def why_no_default(space: Space, config: StudyConfig) -> str | None:
    """Return why there is no default configuration; None if there is one, even if it is not in the space."""
    try:
        default_at_target(space, config)
    except NoDefaultError as error:
        return (
            f"there is no default configuration: {error.key} has no default, and the objective's configuration "
            f"has no value for it"
        )
    except SpaceError:
        pass
    return None
