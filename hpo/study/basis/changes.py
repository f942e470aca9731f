"""What has changed since a study was started: its configuration, its data, its code."""

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from hpo.config.keys import differences, flatten, replaced
from hpo.config.study_config import DATA_SOURCES, FREE_KEYS, SEARCH_SECTIONS, StudyConfig
from hpo.engine.trials.trial import Trial
from hpo.errors import StudyError
from hpo.study.basis.source_code import Code

# With any of these another study is meant: they decide which points there are, and how trials compare.
_DECISIVE = frozenset(("study", "space", "strategy", "split", "objective"))
_SHOWN = 5


@dataclass(frozen=True)
class Basis:
    """What a study rests on, JSON-able, as it is noted in its record.

    Attributes:
        config: the whole configuration.
        data: `parts` with the fingerprint of each; None where nothing can be told.
        code: None in a study of an early version, which did not note it.
    """

    config: Mapping[str, Any]
    data: Mapping[str, Any] | None
    code: Code | None

    def changes_to(self, now: "Basis") -> list[str]:
        """Return what is another in `now`, one line each."""
        changes = [f"config: {change}" for change in changed_config(self.config, now.config).values()]
        changes += [f"data: {change}" for change in changed_data(self.data, now.data).values()]
        before, after = (basis.code.pieces if basis.code else None for basis in (self, now))
        return changes + [f"code: {change}" for change in _changed_names(before, after)]

    def other_versions(self, now: "Basis") -> list[str]:
        """Return which libraries, or Python, are of another version in `now`, one line each."""
        before, after = (basis.code.versions if basis.code else None for basis in (self, now))
        return [f"version: {change}" for change in _changed_names(before, after)]


@dataclass(frozen=True)
class AllowedChange:
    """What had changed when a study went on all the same; JSON-able.

    Attributes:
        time: when it went on, ISO 8601.
        changes: one line each.
        trial: the objective's configuration that trials were given before.
        threads: of a training, before.
        trials: how many had been opened; None in studies of an early version.
        unfinished: numbers of those that were not finished.
    """

    time: str
    changes: Sequence[str]
    trial: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 1
    trials: int | None = None
    unfinished: Sequence[int] = ()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `vars` of one was written as."""
        return cls(**{name: value for name, value in values.items() if name in cls.__dataclass_fields__})


def refuse_changes(before: Basis, now: Basis, name: str, are_allowed: bool) -> None:
    """Refuse to go on with a study on another basis, but where it is allowed and the study would stay the same.

    Args:
        before: the basis as it was noted.
        now: the basis as it is.
        name: what commands call the study.
        are_allowed: whether to go on all the same.

    Raises:
        StudyError: there are changes, and they are not allowed, or they would make it another study.
    """
    changes = before.changes_to(now)
    decisive = [key for key in changed_config(before.config, now.config) if key.partition(".")[0] in _DECISIVE]
    if decisive:
        raise StudyError(
            f"study '{name}': with other values of {', '.join(decisive[:_SHOWN])} it would be another study "
            f"({_first(changes)}); put them back, or choose another study.name"
        )
    if changes and not are_allowed:
        raise StudyError(
            f"study '{name}': something has changed since it was started: {_first(changes)}; put it back, go on all "
            f"the same with `hpo resume {name} --allow-changes`, and the report will say so, or start another study "
            f"with study.name="
        )


def refuse_other_config(frozen: StudyConfig, given: StudyConfig, name: str) -> None:
    """Raise StudyError when the study would go on under another configuration; budget and workers may change."""
    changed = list(changed_config(frozen.to_dict(), given.to_dict()).values())
    if changed:
        raise StudyError(
            f"study '{name}' exists with another configuration: {_first(changed)}; choose another study.name, or go on "
            f"unchanged with `hpo resume {name}`"
        )


def allowed_change(before: Basis, now: Basis, trials: Sequence[Trial]) -> AllowedChange:
    """Return what is written down when a study goes on although something has changed.

    Args:
        before, now: what it rested on, and rests on now.
        trials: of the study so far.
    """
    return AllowedChange(
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        changes=[*before.changes_to(now), *before.other_versions(now)],
        trial={name: branch for name, branch in before.config.items() if name not in SEARCH_SECTIONS},
        threads=before.config["dispatch"]["threads"],
        trials=len(trials),
        unfinished=[trial.number for trial in trials if trial.state == "running"],
    )


def config_as_of(config: StudyConfig, allowed: Sequence[AllowedChange], number: int) -> StudyConfig:
    """Return the configuration that a trial was trained with: without what was changed, and allowed, after it.

    Args:
        config: the study's, as it is now.
        allowed: the changes that were allowed, the earliest first.
        number: the trial's. One that was not finished when something changed counts as trained after the change.
    """
    for change in allowed:
        if number < (change.trials or 0) and number not in change.unfinished:
            there = flatten(config.objective_config)
            # Where the data lie now: what they hold is told apart by fingerprints.
            trial = replaced(change.trial, {key: there[key] for key in DATA_SOURCES if key in there})
            dispatch = config.dispatch.model_copy(update={"threads": change.threads})
            return config.model_copy(update={"objective_config": trial, "dispatch": dispatch})
    return config


def changed_config(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys that differ and are not free to, each with a line that says how."""
    changed = {
        key: f"{key} was {old!r} and is now {new!r}"
        for key, (old, new) in differences(before, now).items()
        if key not in FREE_KEYS
    }
    is_said = any(key.partition(".")[0] == "space" for key in changed)
    if not is_said and json.dumps(before["space"]) != json.dumps(now["space"]):
        # Both decide points: the order in which dimensions are drawn, and whether a value is 1 or 1.0.
        changed["space"] = "space is now in another order, or has other kinds of numbers"
    return changed


def changed_data(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the parts or files that differ, each with a line that says how; see `Basis`."""
    parts, others = (before or {}).get("parts", {}), (now or {}).get("parts", {})
    return {
        part: f"part {part} was {_part(parts.get(part))} and is now {_part(others.get(part))}"
        for part in {**parts, **others}
        if parts.get(part, {}).get("fingerprint") != others.get(part, {}).get("fingerprint")
    }


def _part(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return "not there"
    size = f" ({figures['size']:,} examples)" if "size" in figures else ""
    return f"{str(figures['fingerprint'])[:12]}{size}"


def _changed_names(before: Mapping[str, str] | None, now: Mapping[str, str] | None) -> list[str]:
    if before is None or now is None:
        return []
    return [
        f"{name} was {before.get(name, 'not there')} and is now {now.get(name, 'not there')}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]


def _first(changes: Sequence[str]) -> str:
    return "; ".join(changes[:_SHOWN]) + (f"; and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else "")
