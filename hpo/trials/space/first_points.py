"""Points that somebody writes down: those of `space.first`, tried before the strategy's own, and the default one."""

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
    """A point leaves out a key that has no default: for the default configuration, that there is none."""

    def __init__(self, where: str, key: str) -> None:
        super().__init__(f"{where}: {key} is missing, and has no default; give it")
        self.key = key


def first_points(given: Any, space: Space, fixed: Mapping[str, Value]) -> tuple[Point, ...]:
    """Return the points given by a mapping of keys (nested or dotted) to values, by `default`, or by a list of these.

    The word `default` means the default configuration, and nothing where that is not in the space. What a mapping
    leaves out and has no default has its value in `fixed`, the configuration's own by dotted key. SpaceError for an
    unknown key, a value outside of its range, a broken rule, or a repeated point.
    """
    entries = [given] if isinstance(given, str | Mapping) else given
    if not isinstance(entries, Sequence):
        raise SpaceError(f"space.first: must be a list of points or 'default', given {given!r}")
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
    """Return each dimension's default, or else the configuration's value.

    NoDefaultError where a dimension has neither, so that there is no default configuration; SpaceError where it is not
    in the space.
    """
    return read_point("the default configuration", {}, space, fixed)


def read_point(where: str, entry: Any, space: Space, fixed: Mapping[str, Value]) -> Point:
    """Return one point; arguments and errors as of `first_points`, `where` begins the message.

    NoDefaultError comes before any other fault of a value.
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
        # None stands for no value, unless it is one of those to choose from.
        if value is _MISSING or (value is None and dimension.key not in values and not allows(dimension, None)):
            raise NoDefaultError(where, dimension.key)
        value = from_stored(dimension, value)
        if allows(dimension, value):
            value = canonical(dimension, value)
        else:
            outside.append(f"{dimension.key}={repr(value)[:_SHOWN]} is not in its range ({range_text(dimension)})")
        point[dimension.key] = value
    if outside:
        raise SpaceError(f"{where}: {outside[0]}; give one that is")
    inactive = [key for key in values if key not in point]
    if inactive:
        raise SpaceError(f"{where}: '{inactive[0]}' does not exist with these values (its 'when'); remove it")
    if not space.keeps_rules(point):
        raise SpaceError(f"{where}: {dict(point)} breaks a rule of space.require; give another point")
    return point


def given_values(where: str, entry: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return the values of a mapping, nested or dotted, by key of the space; SpaceError for a key not searched."""
    flat = flatten(entry)
    values = {key: said for key in space.keys if (said := at(flat, key, _MISSING)) is not _MISSING}
    for key in flat:
        if not any(key == whole or key.startswith(f"{whole}.") for whole in values):
            raise SpaceError(
                f"{where}: '{key}' is not searched; allowed: {', '.join(space.keys)}{nearest(key, space.keys)}"
            )
    return values


def range_text(dimension: Dimension) -> str:
    """Return which values a dimension allows, in words."""
    if isinstance(dimension, Range):
        return f"{'whole numbers ' if dimension.integer else ''}{dimension.low:g} to {dimension.high:g}"
    return ", ".join(f"{value:.6g}" if isinstance(value, float) else repr(value) for value in dimension.values)[:_SHOWN]


def default_of(space: Space, config: StudyConfig) -> Point | None:
    """Return the default configuration's point, with scales that at the target; None where it is not in the space."""
    try:
        return default_at_target(space, config)
    except SpaceError:
        return None


def default_at_target(space: Space, config: StudyConfig) -> Point:
    """Return the same point; NoDefaultError where there is no default, SpaceError where it is not in the space."""
    point = default_point(space, flatten(config.objective_config))
    return point if config.study.scales is None else {**point, SCALE: len(config.study.scales)}


def why_no_default(space: Space, config: StudyConfig) -> str | None:
    """Return why there is no default configuration to train; None where there is one, in the space or not."""
    try:
        default_at_target(space, config)
    except NoDefaultError as error:
        return f"there is no default configuration: {error.key} has no value but those that are searched"
    except SpaceError:
        pass
    return None
