"""Deletes files that a study no longer needs: states, models, copies of data, and files left by killed processes."""

import csv
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpo.config.study_config import StudyConfig
from hpo.errors import HpoError
from hpo.files import size_of
from hpo.study.files.folder import StudyFolder
from hpo.study.opening import opened_run
from hpo.study.preparing.preparation import known_study, missing_sources
from hpo.study.winner.final_model import lacks_model
from hpo.workers.training.tasks import checkpoint_name

# Hidden files and folders are temporary: a process writes them and then renames them, which takes less than a day.
_SECONDS_TEMPORARY = 24 * 3600.0
_VISIBLE = "[!.]*"
_TEMPORARY = re.compile(r"\..+([.-]\d+|-[a-z0-9_]{8})")


@dataclass(frozen=True)
class Cleaned:
    """The result of cleaning a folder.

    Attributes:
        study: the folder's name.
        folder: the folder's path.
        bytes: the total number of freed bytes. In a dry run, `bytes` and `freed` say what would be freed.
        freed: the number of freed bytes for each kind of files, such as `states`.
        kept: why states or models stay; `null` = all unneeded states and models were deleted.
    """

    folder: StudyFolder
    freed: Mapping[str, int] = field(default_factory=dict)
    kept: str | None = None

    @property
    def bytes(self) -> int:
        """The total number of freed bytes."""
        return sum(self.freed.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `--json`: the fields by name."""
        path = self.folder.path
        return {"study": path.name, "folder": path, "bytes": self.bytes, "freed": self.freed, "kept": self.kept}


def clean(
    folder: StudyFolder, *, states: bool = False, logs: bool = False, files: bool = False, dry_run: bool = False
) -> Cleaned:
    """Delete the files that a study no longer needs.

    An unfinished search keeps its training states and models, because resuming needs them. A finished search keeps the
    models of the winner and of the best `study.checkpoints` trials. Under a strategy with amounts, it also keeps the
    states, because a search with a larger budget continues from these states. The workers' copy of the data stays only
    if the original data are missing.

    Args:
        states: also delete the states from which a search with a larger budget would continue. Such a search then
            trains from the start. This costs more on the clock, so later proposals may differ.
        logs: also delete the logs of complete trials.
        files: also delete the files that trainings wrote to `trial.dir`.
        dry_run: delete nothing, and return what would be deleted.

    Raises:
        StudyError: the study runs, or its configuration cannot be read.
    """
    config = folder.config()
    with ExitStack() as stack:
        if dry_run:
            folder.refuse_running()
        else:
            stack.enter_context(folder.lock())
        unneeded: dict[str, list[Path]] = {
            "data": [folder.data_dir] if folder.data_dir.is_dir() and not missing_sources(config) else [],
            "logs": list(_logs(folder)) if logs else [],
            "files": [*folder.files_dir.glob(_VISIBLE)] if files else [],
            "leftovers": list(_leftovers(folder.path, "*", "*/*")),
        }
        kept = None
        if any(folder.states_dir.glob(_VISIBLE)) or any(folder.checkpoints_dir.glob(_VISIBLE)):
            try:
                trained, kept = _unneeded_trained(folder, config, states)
                unneeded |= trained
            except HpoError as error:
                kept = f"the study's states and models stay: {error}"
        return Cleaned(folder, _delete(unneeded, dry_run), kept)


def clean_runs(runs: Path, *, dry_run: bool = False) -> Cleaned:
    """Delete the incomplete copies of studies that remain in `runs` after a process was killed.

    Keep copies younger than a day.
    """
    return Cleaned(StudyFolder(runs), _delete({"leftovers": list(_leftovers(runs, "*"))}, dry_run))


def _unneeded_trained(
    folder: StudyFolder, config: StudyConfig, with_states: bool
) -> tuple[dict[str, list[Path]], str | None]:
    """Return the states and models to delete, by kind, and the text for `Cleaned.kept`."""
    study = known_study(str(folder.path))
    with opened_run(study) as run:
        if not study.is_over(run.record) or not run.is_trained or lacks_model(study, run):
            why = "the study's states and models stay: the search or a training after the search is not finished"
            return {}, why
    best = [*run.history.leaders(config.study.checkpoints), *([run.winner] if run.winner else [])]
    needed = {checkpoint_name(trial.number) for trial in best}
    needed |= {Path(run.model.checkpoint_dir).name} if run.model else set()
    models = [path for path in folder.checkpoints_dir.glob(_VISIBLE) if path.name not in needed]
    states = [*folder.states_dir.glob(_VISIBLE)]
    if states and not with_states and any(trial.amount is not None for trial in run.searched):
        why = "the study's states stay: a search with a larger budget continues from them"
        return {"models": models}, f"{why} (`hpo clean --states` deletes them too)"
    return {"states": states, "models": models}, None


def _logs(folder: StudyFolder) -> Iterator[Path]:
    """Yield the log files of the trials that are complete according to trials.csv."""
    if not folder.trials_path.is_file():
        return
    with folder.trials_path.open(newline="", encoding="utf-8", errors="replace") as table:
        for row in csv.DictReader(table):
            if row.get("state") == "complete" and str(row.get("number", "")).isdecimal():
                yield from folder.logs_dir.glob(folder.log_path(int(row["number"]), "*").name)


def _leftovers(folder: Path, *patterns: str) -> Iterator[Path]:
    for pattern in patterns:
        for path in folder.glob(pattern):
            is_old = time.time() - path.lstat().st_mtime > _SECONDS_TEMPORARY
            if _TEMPORARY.fullmatch(path.name) and is_old and not path.is_symlink():
                yield path


def _delete(unneeded: Mapping[str, list[Path]], dry_run: bool) -> dict[str, int]:
    """Delete the files and folders in `unneeded`, and return the number of freed bytes by kind.

    If `dry_run`, delete nothing, and return what would be freed.
    """
    freed = {kind: sum(map(size_of, paths)) for kind, paths in unneeded.items() if paths}
    for path in (path for paths in unneeded.values() if not dry_run for path in paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return freed
