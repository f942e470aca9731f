"""The changes since a study was started: its configuration, its data, its code."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.config.keys import own_part, replaced
from hpo.config.study_config import StudyConfig
from hpo.errors import StudyError
from hpo.study.basis.configurations import SHOWN, changed_config, first_of, moved_sources, sources_of
from hpo.study.basis.source_code import Code, changed_names
from hpo.trials.trial import Trial

# These make another study: they decide the points, and how trials compare.
_DECISIVE = frozenset(("study", "space", "strategy", "split", "objective"))


@dataclass(frozen=True)
class Basis:
    """What a study's results depend on, as noted in its record.

    `data` has `parts` with the fingerprint of each, those of a split or the objective's files; of a split (which has a
    `kind`) also its `files`, and whether it has digests; None where nothing is read. Without `code` none is compared.
    """

    config: Mapping[str, Any]
    data: Mapping[str, Any] | None
    code: Code | None

    def changes_to(self, now: "Basis") -> list[str]:
        """Return what differs in `now`, one line each."""
        changes = [f"config: {change}" for change in self.changed_config(now).values()]
        changes += [f"data: {change}" for change in self.changed_data(now).values()]
        return changes + ([] if self.code is None or now.code is None else self.code.changes_to(now.code))

    def changed_config(self, now: "Basis") -> dict[str, str]:
        """Return the keys that differ in `now` and may not, those of data too whose content is not known to be it."""
        is_same = not self.changed_data(now)
        moved = {
            key: f"{key} was {old!r} and is now {new!r}"
            for key, (old, new) in moved_sources(self.config, now.config).items()
            if not (is_same and self._knows(old, now))
        }
        return moved | changed_config(self.config, now.config)

    def changed_data(self, now: "Basis") -> dict[str, str]:
        """Return the parts of a split and moved files, or the objective's files on record, that differ, a line each."""
        if now.data is None:
            return {}
        before = self.data or {}
        old_names = {new: old for old, new in moved_sources(self.config, now.config).values()}
        known, found = _files(before), {old_names.get(path, path): file for path, file in _files(now.data).items()}
        pairs: dict[str, tuple[Any, Any]] = {}
        if "kind" in now.data or "kind" in before:
            known = {path: file for path, file in known.items() if path in old_names.values()}
            parts, others = before.get("parts", {}), now.data.get("parts", {})
            pairs = {part: (parts.get(part), others.get(part)) for part in {**parts, **others}}
        pairs |= {path: (file, found.get(path)) for path, file in known.items()}
        return {
            name: f"part {name} was {_part(old)} and is now {_part(new)}"
            for name, (old, new) in pairs.items()
            if (old or {}).get("fingerprint") != (new or {}).get("fingerprint")
        }

    def _knows(self, path: str, now: "Basis") -> bool:
        """Return whether the record can tell the content of a file from another, or need not."""
        if self.data is None:
            return False
        return now.data is None or path in _files(self.data) or bool(now.data.get("has_digests"))

    def remarks_on(self, now: "Basis") -> list[str]:
        """Return what differs in `now` and is allowed: the toolkit's files, and versions of libraries."""
        if self.code is None or now.code is None:
            return []
        versions = changed_names(self.code.versions, now.code.versions)
        return [*self.code.edits_to(now.code), *(f"version: {change}" for change in versions)]


@dataclass(frozen=True)
class AllowedChange:
    """The changes with which a study was continued, a line each, at a time in ISO 8601.

    `trial` is the objective's configuration of the trials before, with as many threads and processes per training;
    `trials` how many had been opened, `unfinished` which had not finished.
    """

    time: str
    changes: Sequence[str]
    trial: Mapping[str, Any]
    threads: int
    processes: int
    trials: int
    unfinished: Sequence[int]


def refuse_changes(before: Basis, now: Basis, name: str, are_allowed: bool) -> None:
    """Raise StudyError for changes that are not allowed, or that would make it another study; `name` is as typed."""
    if not are_allowed and moved_sources(before.config, now.config):
        refuse_other_data(before, now, name)
    changes = before.changes_to(now)
    decisive = [key for key in changed_config(before.config, now.config) if key.partition(".")[0] in _DECISIVE]
    if decisive:
        raise StudyError(
            f"study '{name}': with other values of {', '.join(decisive[:SHOWN])} it would be another study "
            f"({first_of(changes)}); restore them, or choose another study.name"
        )
    if changes and not are_allowed:
        raise StudyError(
            f"study '{name}': something has changed since it was started: {first_of(changes)}; undo it, continue "
            f"anyway with `hpo resume {name} --allow-changes`, which the report will mention, or start another study "
            f"with study.name="
        )


def refuse_other_data(before: Basis, now: Basis, name: str) -> None:
    """Raise StudyError where the data that was read is not that of the study."""
    changed, moved = before.changed_data(now), moved_sources(before.config, now.config)
    if changed and moved:
        places, lines = ", ".join(f"{key}={new}" for key, (_, new) in moved.items()), first_of(list(changed.values()))
        raise StudyError(
            f"study '{name}': {places} does not hold the data that it was started with ({lines}); give the place of "
            f"those"
        )
    if changed:
        raise StudyError(
            f"study '{name}': the data has changed since it was started (part {', '.join(changed)}); restore the old "
            f"files, or choose another study.name"
        )


def allowed_change(before: Basis, now: Basis, trials: Sequence[Trial]) -> AllowedChange:
    """Return the note for continuing a study, with these trials so far, on another basis."""
    return AllowedChange(
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        changes=[*before.changes_to(now), *before.remarks_on(now)],
        trial=own_part(before.config),
        threads=before.config["dispatch"]["threads"],
        processes=before.config["dispatch"]["processes_per_task"],
        trials=len(trials),
        unfinished=[trial.number for trial in trials if trial.state == "running"],
    )


def config_as_of(config: StudyConfig, allowed: Sequence[AllowedChange], number: int) -> StudyConfig:
    """Return the configuration that a trial was trained with: without the changes that were allowed after it ended."""
    for change in allowed:
        if number < change.trials and number not in change.unfinished:
            # The current sources of the data: fingerprints detect other content.
            trial = replaced(change.trial, sources_of(config))
            shares = {"threads": change.threads, "processes_per_task": change.processes}
            dispatch = config.dispatch.model_copy(update=shares)
            return config.model_copy(update={"objective_config": trial, "dispatch": dispatch})
    return config


def _files(data: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the files on record by their paths, with the fingerprint of each; without a split these are its parts."""
    return dict(data.get("files" if "kind" in data else "parts", {}))


def _part(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return "not there"
    size = f" ({figures['size']:,} examples)" if "size" in figures else ""
    return f"{str(figures['fingerprint'])[:12]}{size}"
