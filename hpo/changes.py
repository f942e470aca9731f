"""What has changed since a study was started: its configuration, its data, its code."""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpo.config import FREE_KEYS
from hpo.errors import StudyError
from hpo.keys import differences
from hpo.record import Record

# With any of these another study is meant: they decide which points there are, and how trials compare.
_DECISIVE = ("study.", "space", "strategy.", "split.", "objective")
_SHOWN = 5
ALLOWED = "allowed_changes"


@dataclass(frozen=True)
class Basis:
    """What a study rests on, JSON-able, as it is noted in its record.

    Attributes:
        config: the whole configuration.
        data: `parts` with the fingerprint of each; None where nothing can be told.
        code: see `hpo.source_code.describe_code`.
    """

    config: Mapping[str, Any]
    data: Mapping[str, Any] | None
    code: Mapping[str, str]

    def note(self, record: Record) -> None:
        """Write it down."""
        for key, value in vars(self).items():
            record.note(key, value)


def refuse_changes_since(record: Record, now: Basis, name: str, are_allowed: bool = False) -> bool:
    """Refuse to go on with a study on another basis, or write down that it was allowed.

    Args:
        record: has the basis that the study was started on, or was last allowed to go on with.
        now: the basis as it is.
        name: what commands call the study.
        are_allowed: whether to go on all the same.

    Returns:
        Whether there are changes, which are noted in the record then, with the time.

    Raises:
        StudyError: there are, and they are not allowed, or they would make it another study.
    """
    changed_keys = changed_config(record.noted("config"), now.config)
    changes = [f"config: {change}" for change in changed_keys.values()]
    changes += _changed_data(record.noted("data"), now.data) + _changed_code(record.noted("code"), now.code)
    if not changes:
        return False
    shown = "; ".join(changes[:_SHOWN]) + (f"; and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else "")
    decisive = [key for key in changed_keys if key.startswith(_DECISIVE)]
    if decisive:
        raise StudyError(
            f"study '{name}': with other values of {', '.join(decisive[:_SHOWN])} it would be another study ({shown}); "
            f"put them back, or choose another study.name"
        )
    if not are_allowed:
        raise StudyError(
            f"study '{name}': something has changed since it was started: {shown}; put it back, or go on all the same "
            f"with `hpo resume {name} --allow-changes`, and the report will say so"
        )
    time = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    record.note(ALLOWED, [*(record.noted(ALLOWED) or []), {"time": time, "changes": changes}])
    return True


def changed_config(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys that differ and are not free to, each with a line that says how."""
    if before is None:
        # A study of an earlier version, whose configuration stands in its folder alone.
        return {}
    changed = {
        key: f"{key} was {old!r} and is now {new!r}"
        for key, (old, new) in differences(before, now).items()
        if key not in FREE_KEYS
    }
    if not changed and json.dumps(before["space"]) != json.dumps(now["space"]):
        # Both decide points: the order in which dimensions are drawn, and whether a value is 1 or 1.0.
        changed = {"space": "space is now in another order, or has other kinds of numbers"}
    return changed


def _changed_data(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> list[str]:
    parts, others = (before or {}).get("parts", {}), (now or {}).get("parts", {})
    return [
        f"data: part {part} was {_part(parts.get(part))} and is now {_part(others.get(part))}"
        for part in {**parts, **others}
        if parts.get(part, {}).get("fingerprint") != others.get(part, {}).get("fingerprint")
    ]


def _part(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return "not there"
    size = f" ({figures['size']:,} examples)" if "size" in figures else ""
    return f"{str(figures['fingerprint'])[:12]}{size}"


def _changed_code(before: Mapping[str, str] | None, now: Mapping[str, str]) -> list[str]:
    if before is None:
        return []
    return [
        f"code: {name} was {before.get(name, 'not there')} and is now {now.get(name, 'not there')}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]
