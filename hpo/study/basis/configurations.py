"""Compares the configuration of a study with another: what differs and may not, and what somebody changed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hpo.config.keys import at, differences, flatten, within
from hpo.config.study_config import DATA_SOURCES, SEARCH_SECTIONS, StudyConfig, is_free
from hpo.errors import StudyError
from hpo.objectives.outside import OUTSIDE

# The largest number of changes in a line.
SHOWN = 5
_SAID_FIRST = ("objective", "space", "strategy", "study", "split")


class _NotThere:
    def __repr__(self) -> str:
        return "not there"


_NOT_THERE = _NotThere()


def refuse_other_config(frozen: StudyConfig, given: StudyConfig, name: str) -> None:
    """Raise StudyError where the study would continue with another configuration; budget and workers may change."""
    changes = made_changes(frozen.to_dict(), given.to_dict())
    if changes:
        again = "hpo ask" if frozen.objective == OUTSIDE else "hpo resume"
        raise StudyError(
            f"study '{name}' exists with another configuration: {first_of([*changes.values()])}; choose another "
            f"study.name, or continue unchanged with `{again} {name}`"
        )


def made_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return the changes that somebody made and may not, the space first: a dimension is one, and nothing follows."""
    changed, differing, flats = changed_config(before, now), _differing(before, now), (flatten(before), flatten(now))
    references = now["study"].get("references") or {}
    made = [
        key
        for key in sorted(changed, key=_place)
        if not (_follows(key, differing) or any(within(key, one) for one in references))
    ]
    lines = {}
    for key in made or changed:
        dimension = _dimension(key, flats)
        old, new = (_written(at(flat, dimension, _NOT_THERE)) for flat in flats)
        is_ask_and_tell = dimension.startswith("space.") and old != new
        lines[dimension] = f"{dimension} was {old} and is now {new}" if is_ask_and_tell else changed[key]
    return lines


def _dimension(key: str, flats: Sequence[Mapping[str, Any]]) -> str:
    """Return the key of the dimension that a key of the space belongs to; any other key itself."""
    parts = key.split(".")
    for number in range(2, len(parts) + 1) if parts[0] == "space" else ():
        name = ".".join(parts[:number])
        if any(_is_dimension(at(flat, name, _NOT_THERE)) for flat in flats):
            return name
    return key


def _is_dimension(branch: Any) -> bool:
    if not isinstance(branch, Mapping):
        return branch is not _NOT_THERE
    return any(not isinstance(branch.get(name, {}), Mapping) for name in ("values", "choices", "low"))


def _written(dimension: Any) -> str:
    """Return a dimension as people say it: `log 1e-05 to 0.01`, or its values."""
    if not _is_dimension(dimension) or not isinstance(dimension, Mapping):
        return repr(dimension)
    listed = dimension.get("values") or dimension.get("choices")
    scale = "log " if dimension.get("log") else ""
    points = f" in {dimension['points']} points" if dimension.get("points") else ""
    rules = "".join(f", {name} {dimension[name]!r}" for name in ("when", "default") if dimension.get(name) is not None)
    return (repr(listed) if listed else f"{scale}{dimension.get('low')} to {dimension.get('high')}{points}") + rules


def changed_config(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys that differ and may not, each with a line about the change; of data files see `moved_sources`."""
    moved = moved_sources(before, now)
    changed = {
        key: f"{key} was {old!r} and is now {new!r}"
        for key, (old, new) in _differing(before, now).items()
        if not is_free(key) and key not in moved
    }
    is_said = any(key.partition(".")[0] == "space" for key in changed)
    if not is_said and json.dumps(before["space"]) != json.dumps(now["space"]):
        # Both decide points: the order in which dimensions are drawn, and whether a value is 1 or 1.0.
        changed["space"] = "space is now in another order, or has other kinds of numbers"
    return changed


def moved_sources(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the keys of data files that name another place in `now`, each with both places."""
    return {
        key: change
        for key, change in differences(before, now).items()
        if key in DATA_SOURCES and all(isinstance(place, str) for place in change)
    }


def sources_of(config: StudyConfig) -> dict[str, str]:
    """Return where the files of a study's data are, by key."""
    flat = flatten(config.objective_config)
    return {key: flat[key] for key in DATA_SOURCES if isinstance(flat.get(key), str)}


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the keys that differ, each with the old and the new value, or `_NOT_THERE`."""
    old, new = flatten(before), flatten(now)
    return {key: (old.get(key, _NOT_THERE), new.get(key, _NOT_THERE)) for key in differences(before, now)}


def _follows(key: str, differing: Mapping[str, tuple[Any, Any]]) -> bool:
    """Return whether a difference only follows from another, and nobody made it."""
    section = key.partition(".")[0]
    if key.startswith("study.references.") or key == "command.searched":
        return True
    if key == "space.first":
        # From Python it is there where the configuration has a value for each dimension.
        return all(value in (["default"], _NOT_THERE) for value in differing[key])
    if section not in SEARCH_SECTIONS and "objective" in differing:
        return True
    if section == "strategy" and key != "strategy.name" and "strategy.name" in differing:
        return True
    # `x: null` is there because x is searched, and `integer: false` because a range was written as (0.0, 1.0).
    unsaid = (None, _NOT_THERE, False) if section == "space" else (None, _NOT_THERE)
    return all(any(value is other for other in unsaid) for value in differing.get(key, (key,)))


def _place(key: str) -> int:
    """Return the place of a difference among others: first what makes it another search."""
    section = key.partition(".")[0]
    return _SAID_FIRST.index(section) if section in _SAID_FIRST else len(_SAID_FIRST)


def first_of(changes: Sequence[str]) -> str:
    """Return the first changes in a line, and how many more there are."""
    return "; ".join(changes[:SHOWN]) + (f"; and {len(changes) - SHOWN} more" if len(changes) > SHOWN else "")
