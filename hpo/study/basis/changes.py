"""The changes since a study was started: its configuration, its data, its code."""

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Self

from hpo.config.keys import differences, flatten, replaced
from hpo.config.study_config import DATA_SOURCES, FREE_KEYS, SEARCH_SECTIONS, StudyConfig
from hpo.engine.training.objective.own_search import DataFile
from hpo.engine.trials.trial import Trial
from hpo.errors import StudyError
from hpo.study.basis.source_code import Code

# These make another study: they decide the points, and how trials compare.
_DECISIVE = frozenset(("study", "space", "strategy", "split", "objective"))
_SHOWN = 5
_SAID_FIRST = ("objective", "space", "strategy", "study", "split")


class _NotThere:
    def __repr__(self) -> str:
        return "not there"


_NOT_THERE = _NotThere()


@dataclass(frozen=True)
class Basis:
    """What a study's results depend on, JSON-able, as noted in its record.

    Attributes:
        config: the whole configuration.
        data: `parts` with the fingerprint of each, those of a split or the objective's files; of a split (which has a
            `kind`) also its `files`, and whether it has digests. None where they are unknown, or nothing is read.
        code: None in a study of an early version, which did not note it.
    """

    config: Mapping[str, Any]
    data: Mapping[str, Any] | None
    code: Code | None

    def changes_to(self, now: "Basis") -> list[str]:
        """Return what differs in `now`, one line each."""
        changes = [f"config: {change}" for change in self.changed_config(now).values()]
        changes += [f"data: {change}" for change in self.changed_data(now).values()]
        if self.code is None or self.code.pieces is None or now.code is None:
            return changes
        return changes + [
            f"code: {change}" for change in _changed_names(self.code.pieces, self.code.known_of(now.code))
        ]

    def changed_config(self, now: "Basis") -> dict[str, str]:
        """Return the keys that differ in `now` and may not: see `changed_config`.

        A source of data may be elsewhere where its content is known to be the same, or is not read now.
        """
        changed, moved = changed_config(self.config, now.config), moved_sources(self.config, now.config)
        is_same = not self.changed_data(now)
        lines = {key: f"{key} was {old!r} and is now {new!r}" for key, (old, new) in moved.items()}
        return {**{k: line for k, line in lines.items() if not (is_same and self._knows(moved[k][0], now))}, **changed}

    def changed_data(self, now: "Basis") -> dict[str, str]:
        """Return the parts or files that differ in `now`: see `changed_data`; none where no data is read now."""
        return changed_data(self.data, now.data, list(moved_sources(self.config, now.config).values()))

    def _knows(self, path: str, now: "Basis") -> bool:
        """Return whether the record can tell the content of a file from another, or need not."""
        if self.data is None:
            return False
        return now.data is None or path in _files(self.data) or bool(now.data.get("has_digests"))

    def other_versions(self, now: "Basis") -> list[str]:
        """Return the libraries, or Python, whose versions differ in `now`, one line each."""
        before, after = (basis.code.versions if basis.code else None for basis in (self, now))
        return [f"version: {change}" for change in _changed_names(before, after)]


@dataclass(frozen=True)
class AllowedChange:
    """The changes with which a study was continued; JSON-able.

    Attributes:
        time: of the continuation, ISO 8601.
        changes: one line each.
        trial: the objective's configuration of the trials before.
        threads, processes: per training, before.
        trials: number of trials opened before; None in studies of an early version.
        unfinished: numbers of those that were not finished.
    """

    time: str
    changes: Sequence[str]
    trial: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 1
    processes: int = 1
    trials: int | None = None
    unfinished: Sequence[int] = ()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the `vars` of an instance."""
        return cls(**{name: value for name, value in values.items() if name in cls.__dataclass_fields__})


def refuse_changes(before: Basis, now: Basis, name: str, are_allowed: bool) -> None:
    """Raise StudyError for changes that are not allowed, or that would make it another study.

    `name` is the study's name on the command line; `are_allowed` is the user's consent to changes.
    """
    if not are_allowed and moved_sources(before.config, now.config):
        refuse_other_data(before, now, name)
    changes = before.changes_to(now)
    decisive = [key for key in changed_config(before.config, now.config) if key.partition(".")[0] in _DECISIVE]
    if decisive:
        raise StudyError(
            f"study '{name}': with other values of {', '.join(decisive[:_SHOWN])} it would be another study "
            f"({_first(changes)}); restore them, or choose another study.name"
        )
    if changes and not are_allowed:
        raise StudyError(
            f"study '{name}': something has changed since it was started: {_first(changes)}; undo it, continue "
            f"anyway with `hpo resume {name} --allow-changes`, which the report will mention, or start another study "
            f"with study.name="
        )


def refuse_other_data(before: Basis, now: Basis, name: str) -> None:
    """Raise StudyError where the data that was read is not that of the study; `name` as of `refuse_changes`."""
    changed, moved = before.changed_data(now), moved_sources(before.config, now.config)
    if changed and moved:
        places, lines = ", ".join(f"{key}={new}" for key, (_, new) in moved.items()), _first(list(changed.values()))
        raise StudyError(
            f"study '{name}': {places} does not hold the data that it was started with ({lines}); give the place of "
            f"those"
        )
    if changed:
        raise StudyError(
            f"study '{name}': the data has changed since it was started (part {', '.join(changed)}); restore the old "
            f"files, or choose another study.name"
        )


def moved_sources(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the keys of data files that name another place in `now`, each with both places."""
    return {
        key: change
        for key, change in differences(before, now).items()
        if key in DATA_SOURCES and all(isinstance(place, str) for place in change)
    }


def refuse_other_config(frozen: StudyConfig, given: StudyConfig, name: str) -> None:
    """Raise StudyError where the study would continue with another configuration; budget and workers may change.

    What lies at another place of its data is compared when it is read: see `Basis`.
    """
    before, now = frozen.to_dict(), given.to_dict()
    changed = changed_config(before, now)
    if changed:
        differing = _differing(before, now)
        made = sorted((key for key in changed if not _follows(key, differing)), key=_place)
        said = _first([changed[key] for key in made or changed])
        raise StudyError(
            f"study '{name}' exists with another configuration: {said}; choose another study.name, or "
            f"continue unchanged with `hpo resume {name}`"
        )


def allowed_change(before: Basis, now: Basis, trials: Sequence[Trial]) -> AllowedChange:
    """Return the note for continuing a study, with these trials so far, on another basis."""
    return AllowedChange(
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        changes=[*before.changes_to(now), *before.other_versions(now)],
        trial={name: branch for name, branch in before.config.items() if name not in SEARCH_SECTIONS},
        threads=before.config["dispatch"]["threads"],
        processes=before.config["dispatch"].get("processes_per_task", 1),
        trials=len(trials),
        unfinished=[trial.number for trial in trials if trial.state == "running"],
    )


def config_as_of(config: StudyConfig, allowed: Sequence[AllowedChange], number: int) -> StudyConfig:
    """Return the configuration that a trial was trained with: without the changes that were allowed after it.

    Args:
        config: the study's current one.
        allowed: the allowed changes, the earliest first.
        number: the trial's. A trial that was unfinished at a change counts as trained after it.
    """
    for change in allowed:
        if number < (change.trials or 0) and number not in change.unfinished:
            there = flatten(config.objective_config)
            # The current sources of the data: fingerprints detect other content.
            trial = replaced(change.trial, {key: there[key] for key in DATA_SOURCES if key in there})
            shares = {"threads": change.threads, "processes_per_task": change.processes}
            dispatch = config.dispatch.model_copy(update=shares)
            return config.model_copy(update={"objective_config": trial, "dispatch": dispatch})
    return config


def changed_config(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys that differ and may not, each with a line about the change; of data files see `moved_sources`."""
    # Studies of before there was the key trained in one process.
    is_unsaid, moved = ("dispatch.processes_per_task", _NOT_THERE, 1), moved_sources(before, now)
    changed = {
        key: f"{key} was {old!r} and is now {new!r}"
        for key, (old, new) in _differing(before, now).items()
        if key not in FREE_KEYS and key not in moved and (key, old, new) != is_unsaid
    }
    is_said = any(key.partition(".")[0] == "space" for key in changed)
    if not is_said and json.dumps(before["space"]) != json.dumps(now["space"]):
        # Both decide points: the order in which dimensions are drawn, and whether a value is 1 or 1.0.
        changed["space"] = "space is now in another order, or has other kinds of numbers"
    return changed


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


def changed_data(
    before: Mapping[str, Any] | None, now: Mapping[str, Any] | None, moved: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    """Return the parts or files that differ, each with a line about the change; see `Basis`.

    Of a split these are its parts, and the files that moved; else the objective's files that are on record.
    """
    if now is None:
        return {}
    before = before or {}
    parts, others = before.get("parts", {}), now.get("parts", {})
    old_names = {new: old for old, new in moved}
    known, found = _files(before), {old_names.get(path, path): figures for path, figures in _files(now).items()}
    if "kind" in now or "kind" in before:
        known = {path: figures for path, figures in known.items() if path in old_names.values()}
    else:
        parts, others = {}, {}
    pairs = {part: (parts.get(part), others.get(part)) for part in {**parts, **others}}
    pairs |= {path: (figures, found.get(path)) for path, figures in known.items()}
    return {
        name: f"part {name} was {_part(old)} and is now {_part(new)}"
        for name, (old, new) in pairs.items()
        if (old or {}).get("fingerprint") != (new or {}).get("fingerprint")
    }


def _files(data: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the files on record by their paths, with the fingerprint of each; without a split these are its parts."""
    return dict(data.get("files" if "kind" in data else "parts", {}))


def changed_environment(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line per difference between two descriptions of an environment, and per uncommitted change."""
    for key in ("python", "platform", "processor", "commit"):
        if before.get(key) != now.get(key):
            yield f"{key}: was {before.get(key)}, is {now.get(key)}"
    old, new = inner(before, "packages"), inner(now, "packages")
    for name in sorted({**old, **new}):
        if old.get(name) != new.get(name):
            yield f"packages: {name} was {old.get(name)}, is {new.get(name)}"
    for when, environment in (("then", before), ("now", now)):
        if environment.get("is_dirty"):
            yield f"code: had uncommitted changes {when}"


def changed_since(
    report: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]], files: Sequence[DataFile]
) -> Iterator[str]:
    """Yield one line per part of the data that is not as in a report; without a split, per file of the objective.

    Files are compared in order, since they may have moved.
    """
    before = inner(report, "data", "split", "parts")
    for part in {**before, **parts} if before else ():
        old, new = inner(before, part).get("fingerprint"), parts.get(part, {}).get("fingerprint")
        if old != new:
            yield f"data: part {part} was {str(old)[:12]}, is {str(new)[:12]}"
    if before:
        return
    given = inner(report, "data").get("files")
    known = [file for file in given if isinstance(file, Mapping)] if isinstance(given, list) else []
    nothing: Mapping[str, Any] = {}
    # Of a file that an earlier version did not note nothing can be said.
    for was, file in zip_longest(known, list(map(vars, files))[: len(known)], fillvalue=nothing):
        if was.get("sha256") != file.get("sha256"):
            name = was.get("path") or file.get("path")
            yield f"data: {name} was {str(was.get('sha256'))[:12]}, is {str(file.get('sha256'))[:12]}"


def changed_code(report: Mapping[str, Any], now: Code) -> Iterator[str]:
    """Yield one line per piece of the code, and per library, that is not as in a report.

    A piece that only one side has is not compared: versions of the toolkit name them in other ways. Of libraries those
    are left out that `changed_environment` compares.
    """
    compared = {"python", *inner(report, "environment", "packages")}
    for what, there in (("pieces", now.pieces or {}), ("versions", now.versions)):
        for name, old in inner(report, "study", "code", what).items():
            if name in there and old != there[name] and not (what == "versions" and name in compared):
                yield f"code: {name} was {old} and is now {there[name]}"


def inner(report: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return an inner mapping; empty where it is missing, since a report may come from a stranger."""
    for key in keys:
        value = report.get(key)
        report = value if isinstance(value, Mapping) else {}
    return report


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
