"""Finds changes of a study's configuration, data and code since the study was started."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.config.keys import own_part, replaced
from hpo.config.study_config import StudyConfig
from hpo.errors import StudyError
from hpo.study.basis.configurations import changed_config, first_of, moved_sources, sources_of
from hpo.study.basis.source_code import Code, changed_names
from hpo.trials.trial import Trial
from hpo.workers.objective.path import ObjectivePath

# A change in these sections makes another study: they decide the points, and how trials compare.
_DECISIVE = frozenset(("study", "space", "strategy", "split", "objective"))


@dataclass(frozen=True)
class Basis:
    """The basis of a study's results, as noted in the study's record.

    Attributes:
        config: the configuration.
        data: a description of the data; None if no data are read. The key `parts` has the fingerprints of the train,
            validation and test splits; the other keys are `kind`, `files` and `has_digests`. If the objective reads its
            own data, the only key is `parts`, with the fingerprints of the data files.
        code: the code; None if the code is not compared.
    """

    config: Mapping[str, Any]
    data: Mapping[str, Any] | None
    code: Code | None

    def changes_to(self, now: "Basis") -> list[str]:
        """Return a line for each forbidden change from this basis to `now`; compare the code if both bases have it."""
        changes = [f"config: {change}" for change in self.changed_config(now).values()]
        changes += [f"data: {change}" for change in self.changed_data(now).values()]
        return changes + ([] if self.code is None or now.code is None else self.code.changes_to(now.code))

    def changed_config(self, now: "Basis") -> dict[str, str]:
        """Return the forbidden changes of the configuration from this basis to `now`.

        The dict maps each changed key to a line of text.
        A new path of a data file is allowed if the file's content is known to be unchanged.
        """
        is_same = not self.changed_data(now)
        moved = {
            key: f"{key} was {old!r} and is now {new!r}"
            for key, (old, new) in moved_sources(self.config, now.config).items()
            if not (is_same and self._has_fingerprint(old, now))
        }
        return moved | changed_config(self.config, now.config)

    def changed_data(self, now: "Basis") -> dict[str, str]:
        """Return the changes of the data from this basis to `now`.

        The dict maps the name of each changed split or file to a line of text. It is empty if `now` has no data.
        If the toolkit splits the data, compare the train, validation and test splits, and the moved files. If the
        objective reads its own data, compare all files. Compare a moved file with the recorded file of its old path.
        """
        if now.data is None:
            return {}
        before = self.data or {}
        old_names = {new: old for old, new in moved_sources(self.config, now.config).values()}
        known, current = _files(before), {old_names.get(path, path): file for path, file in _files(now.data).items()}
        pairs: dict[str, tuple[Any, Any]] = {}
        if "kind" in now.data or "kind" in before:
            known = {path: file for path, file in known.items() if path in old_names.values()}
            parts, others = before.get("parts", {}), now.data.get("parts", {})
            pairs = {part: (parts.get(part), others.get(part)) for part in {**parts, **others}}
            current = {path: file for path, file in current.items() if path in known}
        pairs |= {path: (known.get(path), current.get(path)) for path in {**known, **current}}
        return {
            name: f"{name} was {_part_text(old)} and is now {_part_text(new)}"
            for name, (old, new) in pairs.items()
            if (old or {}).get("fingerprint") != (new or {}).get("fingerprint")
        }

    def _has_fingerprint(self, path: str, now: "Basis") -> bool:
        """Return whether the data file at `path` may get a new path if `changed_data` finds no change.

        A new path is allowed if a fingerprint would show a change in the file's content. If this basis has no data, a
        new path is forbidden. If only `now` has no data, a new path is allowed, although nothing can be compared.
        """
        if self.data is None:
            return False
        return now.data is None or path in _files(self.data) or bool(now.data.get("has_digests"))

    def remarks_on(self, now: "Basis") -> list[str]:
        """Return a line for each allowed difference between this basis and `now`.

        Differences in the toolkit's files and in `Code.versions` are allowed.
        """
        if self.code is None or now.code is None:
            return []
        versions = changed_names(self.code.versions, now.code.versions)
        return [*self.code.edits_to(now.code), *(f"version: {change}" for change in versions)]


@dataclass(frozen=True)
class AllowedChange:
    """The changes of a study's basis at the time when a user continued the study.

    Attributes:
        time: when the study was continued, in ISO 8601.
        changes: a line for each change, including changes that need no permission (`Basis.remarks_on`).
        trial: the objective's configuration before the changes.
        threads, processes: the numbers of threads and processes of each training before the changes.
        trials: how many trials existed at that time.
        unfinished: the numbers of the trials that had not finished at that time.
    """

    time: str
    changes: Sequence[str]
    trial: Mapping[str, Any]
    threads: int
    processes: int
    trials: int
    unfinished: Sequence[int]


def refuse_decisive_changes(before: Mapping[str, Any], now: Mapping[str, Any], name: str) -> None:
    """Raise StudyError if the configuration of the study `name` has changed in the sections of `_DECISIVE`."""
    changed = changed_config(before, now)
    if decisive := [change for key, change in changed.items() if key.partition(".")[0] in _DECISIVE]:
        raise StudyError(
            f"study '{name}': {first_of(decisive)}; this cannot change after the study's start: undo the change, or "
            f"choose another study.name"
        )


def refuse_changes(before: Basis, now: Basis, name: str, are_allowed: bool) -> None:
    """Raise StudyError if the basis of the study `name` has changed.

    If `are_allowed`, refuse only changes in the sections of `_DECISIVE`, such as the space.
    """
    if not are_allowed and moved_sources(before.config, now.config):
        refuse_other_data(before, now, name)
    changes = before.changes_to(now)
    refuse_decisive_changes(before.config, now.config, name)
    if changes and not are_allowed:
        anyway = f"`hpo resume {name} --allow-changes`"
        if ObjectivePath.of(before.config["objective"]).is_pickled:
            anyway = f"hpo.search(..., allow_changes=True); {anyway} would use the stored function"
        raise StudyError(
            f"study '{name}': has changed since its start: {first_of(changes)}; undo the changes, choose another "
            f"study.name, or continue anyway with {anyway} (the report will mention the changes)"
        )


def refuse_other_data(before: Basis, now: Basis, name: str) -> None:
    """Raise StudyError if the data have changed from `before`, the recorded basis, to `now`; `name` names the study."""
    changed, moved = before.changed_data(now), moved_sources(before.config, now.config)
    if changed and moved:
        places, lines = ", ".join(f"{key}={new}" for key, (_, new) in moved.items()), first_of(list(changed.values()))
        raise StudyError(
            f"study '{name}': {places} does not have the data that the study was started with ({lines}); give the path "
            f"of the original data"
        )
    if changed:
        raise StudyError(
            f"study '{name}': the data have changed since the study's start (changed: {', '.join(changed)}); restore "
            f"the old files, or choose another study.name"
        )


def allowed_change(before: Basis, now: Basis, trials: Sequence[Trial]) -> AllowedChange:
    """Return a description of the changes from `before` to `now`. The caller writes this description to the record.

    `trials` are the study's trials so far.
    """
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
    """Return the configuration with which trial `number` was trained, but with the current paths of data sources.

    Undo the changes in `allowed` that came after the trial's end.
    """
    for change in allowed:
        if number < change.trials and number not in change.unfinished:
            # Use the current data sources; fingerprints detect other content.
            trial = replaced(change.trial, sources_of(config))
            shares = {"threads": change.threads, "processes_per_task": change.processes}
            dispatch = config.dispatch.model_copy(update=shares)
            return config.model_copy(update={"objective_config": trial, "dispatch": dispatch})
    return config


def _files(data: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the fingerprint of each recorded file, by path."""
    return dict(data.get("files" if "kind" in data else "parts", {}))


def _part_text(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return "missing"
    size = f" ({figures['size']:,} examples)" if "size" in figures else ""
    return f"{str(figures['fingerprint'])[:12]}{size}"
