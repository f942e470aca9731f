"""Compares the configuration of a study with another: what differs and may not, and what somebody changed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hpo.config.keys import differences, flatten
from hpo.config.study_config import DATA_SOURCES, SEARCH_SECTIONS, StudyConfig, is_free
from hpo.errors import StudyError

# The largest number of changes in a line.
SHOWN = 5
_SAID_FIRST = ("objective", "space", "strategy", "study", "split")


class _NotThere:
    def __repr__(self) -> str:
        return "not there"


_NOT_THERE = _NotThere()


def refuse_other_config(frozen: StudyConfig, given: StudyConfig, name: str) -> None:
    """Raise StudyError where the study would continue with another configuration; budget and workers may change.

    What lies at another place of its data is compared when it is read: see `Basis`.
    """
    before, now = frozen.to_dict(), given.to_dict()
    changed = changed_config(before, now)
    if changed:
        differing = _differing(before, now)
        made = sorted((key for key in changed if not _follows(key, differing)), key=_place)
        said = first_of([changed[key] for key in made or changed])
        raise StudyError(
            f"study '{name}' exists with another configuration: {said}; choose another study.name, or "
            f"continue unchanged with `hpo resume {name}`"
        )


def changed_config(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys that differ and may not, each with a line about the change; of data files see `moved_sources`."""
    # Studies of before there was the key trained in one process.
    is_unsaid, moved = ("dispatch.processes_per_task", _NOT_THERE, 1), moved_sources(before, now)
    changed = {
        key: f"{key} was {old!r} and is now {new!r}"
        for key, (old, new) in _differing(before, now).items()
        if not is_free(key) and key not in moved and (key, old, new) != is_unsaid
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


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the keys that differ, each with the old and the new value, or `_NOT_THERE`."""
    old, new = flatten(before), flatten(now)
    return {key: (old.get(key, _NOT_THERE), new.get(key, _NOT_THERE)) for key in differences(before, now)}


def _follows(key: str, differing: Mapping[str, tuple[Any, Any]]) -> bool:
    """Return whether a difference only follows from another, and nobody made it."""
    section = key.partition(".")[0]
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
