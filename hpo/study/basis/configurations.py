"""Compares two configurations of a study, and finds the forbidden changes that a user made."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hpo.config.keys import at, differences, flatten, within
from hpo.config.study_config import DATA_SOURCES, SEARCH_SECTIONS, StudyConfig, is_free
from hpo.errors import StudyError
from hpo.objectives.outside import OUTSIDE

# The largest number of changes in a message.
SHOWN = 5
# The order of sections in a message; all other sections come last.
_SECTION_PLACES = {"objective": 0, "space": 1, "strategy": 2, "study": 3, "split": 4}


class _Missing:
    def __repr__(self) -> str:
        return "missing"


_MISSING = _Missing()


def refuse_other_config(frozen: StudyConfig, given: StudyConfig, name: str) -> None:
    """Raise StudyError if the given configuration has forbidden changes; see `changed_config`."""
    changes = made_changes(frozen.to_dict(), given.to_dict())
    if changes:
        command = "hpo ask" if frozen.objective == OUTSIDE else "hpo resume"
        raise StudyError(
            f"study '{name}' exists with another configuration: {first_of([*changes.values()])}; choose another "
            f"study.name, or continue the unchanged study with `{command} {name}`"
        )


def made_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return the forbidden changes that a user made, as a dict from a changed key to a line of text.

    The keys are in the order of the sections in `_SECTION_PLACES`. A changed dimension of the space has a single line.
    Leave out changes that follow from other changes (see `_is_implied`), unless this would leave out all changes.
    """
    changed, differing, flats = changed_config(before, now), _differing(before, now), (flatten(before), flatten(now))
    references = now["study"].get("references") or {}
    made = [
        key
        for key in sorted(changed, key=lambda key: _SECTION_PLACES.get(key.partition(".")[0], len(_SECTION_PLACES)))
        if not (_is_implied(key, differing) or any(within(key, one) for one in references))
    ]
    lines = {}
    for key in made or changed:
        dimension = _dimension(key, flats)
        old, new = (_dimension_text(at(flat, dimension, _MISSING)) for flat in flats)
        is_changed_dimension = dimension.startswith("space.") and old != new
        lines[dimension] = f"{dimension} was {old} and is now {new}" if is_changed_dimension else changed[key]
    return lines


def _dimension(key: str, flats: Sequence[Mapping[str, Any]]) -> str:
    """Return the key of the dimension that contains `key`, such as `space.lr` for `space.lr.low`.

    If no dimension contains `key`, return `key`.
    """
    parts = key.split(".")
    for number in range(2, len(parts) + 1) if parts[0] == "space" else ():
        name = ".".join(parts[:number])
        if any(_is_dimension(at(flat, name, _MISSING)) for flat in flats):
            return name
    return key


def _is_dimension(branch: Any) -> bool:
    if not isinstance(branch, Mapping):
        return branch is not _MISSING
    return any(not isinstance(branch.get(name, {}), Mapping) for name in ("values", "choices", "low"))


def _dimension_text(dimension: Any) -> str:
    """Return the values of a dimension as text: a list, or for a range the two ends, such as `log 1e-05 to 0.01`.

    The text also has the number of points, the condition and the default, if the dimension has them.
    """
    if not _is_dimension(dimension) or not isinstance(dimension, Mapping):
        return repr(dimension)
    listed = dimension.get("values") or dimension.get("choices")
    scale = "log " if dimension.get("log") else ""
    points = f" in {dimension['points']} points" if dimension.get("points") else ""
    rules = "".join(f", {name} {dimension[name]!r}" for name in ("when", "default") if dimension.get(name) is not None)
    return (repr(listed) if listed else f"{scale}{dimension.get('low')} to {dimension.get('high')}{points}") + rules


def changed_config(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return a line of text for each forbidden change of a configuration, by key.

    Changes of the keys in `FREE_KEYS`, such as the budget, are allowed. The result does not contain changed paths of
    data sources; `moved_sources` returns these paths.
    """
    moved = moved_sources(before, now)
    changed = {
        key: f"{key} was {old!r} and is now {new!r}"
        for key, (old, new) in _differing(before, now).items()
        if not is_free(key) and key not in moved
    }
    has_space_line = any(key.partition(".")[0] == "space" for key in changed)
    if not has_space_line and json.dumps(before["space"]) != json.dumps(now["space"]):
        # Compare the text: points depend on the order of dimensions, and on whether a value is 1 or 1.0.
        changed["space"] = "space has another order of dimensions now, or a number changed between integer and float"
    return changed


def moved_sources(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the old and the new path of each data source that has another path in `now`.

    The keys of the result are keys of the configuration, such as `data.train`.
    """
    return {
        key: change
        for key, change in differences(before, now).items()
        if key in DATA_SOURCES and all(isinstance(place, str) for place in change)
    }


def sources_of(config: StudyConfig) -> dict[str, str]:
    """Return the paths of a study's data sources, by key."""
    flat = flatten(config.objective_config)
    return {key: flat[key] for key in DATA_SOURCES if isinstance(flat.get(key), str)}


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the keys whose values differ, each with its old and its new value; an absent value is `_MISSING`."""
    old, new = flatten(before), flatten(now)
    return {key: (old.get(key, _MISSING), new.get(key, _MISSING)) for key in differences(before, now)}


def _is_implied(key: str, differing: Mapping[str, tuple[Any, Any]]) -> bool:
    """Return whether the change of `key` follows from a change of another key, so that no user changed `key` itself."""
    section = key.partition(".")[0]
    if key.startswith("study.references.") or key == "command.searched":
        return True
    if key == "space.first":
        # Python sets it to the default if the configuration has a value for each dimension.
        return all(value in (["default"], _MISSING) for value in differing[key])
    if section not in SEARCH_SECTIONS and "objective" in differing:
        return True
    if section == "strategy" and key != "strategy.name" and "strategy.name" in differing:
        return True
    # A searched x adds `x: null`, and a range written as (0.0, 1.0) adds `integer: false`.
    implied = (None, _MISSING, False) if section == "space" else (None, _MISSING)
    return all(any(value is other for other in implied) for value in differing.get(key, (key,)))


def first_of(changes: Sequence[str]) -> str:
    """Return a line with the first changes and the number of further changes."""
    return "; ".join(changes[:SHOWN]) + (f"; and {len(changes) - SHOWN} more" if len(changes) > SHOWN else "")
