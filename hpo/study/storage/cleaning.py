"""What in a study's folder nothing needs: states, models, copies of data, and what killed processes have left."""

import csv
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpo.config.study_config import StudyConfig
from hpo.errors import HpoError
from hpo.study.files.folder import StudyFolder
from hpo.study.opening import opened_run
from hpo.study.preparing.preparation import known_study, missing_sources
from hpo.study.winner.final_model import lacks_model
from hpo.workers.training.tasks import checkpoint_name

# What hides directly in a study's folder, or one below, is written aside and then renamed; in a day that has ended.
_SECONDS_ASIDE = 24 * 3600.0
_OWN = "[!.]*"
_ASIDE = re.compile(r"\..+([.-]\d+|-[a-z0-9_]{8})")


@dataclass(frozen=True)
class Cleaned:
    """A folder that was cleaned.

    Attributes:
        study: its name.
        folder: where it is.
        bytes: freed, in all.
        freed: the bytes by kind; kinds of which there is nothing are not there.
        kept: why something stays that the end of the search would free; `null` = nothing does.
    """

    folder: StudyFolder
    freed: Mapping[str, int] = field(default_factory=dict)
    kept: str | None = None

    @property
    def bytes(self) -> int:
        """How much it frees, in all."""
        return sum(self.freed.values())

    def to_dict(self) -> dict[str, Any]:
        """Return its fields."""
        path = self.folder.path
        return {"study": path.name, "folder": path, "bytes": self.bytes, "freed": self.freed, "kept": self.kept}


def clean(
    folder: StudyFolder, *, states: bool = False, logs: bool = False, files: bool = False, dry_run: bool = False
) -> Cleaned:
    """Delete what nothing needs of a study that is not running.

    The training states and the models of a search that is not over stay, since to resume it needs them. Of one that is
    over, the models of the winner and of the best `study.checkpoints` trials stay, and the states where a larger budget
    goes on from them: under a strategy that trains by amounts.

    Args:
        folder: the study's.
        states: whether those go, too. A larger budget then trains from the start what would go on from them, if its
            objective can do that; that costs more on the clock, and points that are proposed later may be others.
        logs: whether the logs of complete trials go, too.
        files: whether the own files of trainings (`trial.dir`) go, too.
        dry_run: whether it is only found out what would go.

    Raises:
        StudyError: it runs, or its configuration cannot be read.
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
            "files": [*folder.files_dir.glob(_OWN)] if files else [],
            "leftovers": list(_aside(folder.path, "*", "*/*")),
        }
        kept = None
        if any(folder.states_dir.glob(_OWN)) or any(folder.checkpoints_dir.glob(_OWN)):
            try:
                of_training, kept = _of_training(folder, config, states)
                unneeded |= of_training
            except HpoError as error:
                kept = f"its states and models stay: {error}"
        return Cleaned(folder, _delete(unneeded, dry_run), kept)


def clean_runs(runs: Path, *, dry_run: bool = False) -> Cleaned:
    """Delete what killed processes have left beside the studies: copies that were cut off, of a day ago and more."""
    return Cleaned(StudyFolder(runs), _delete({"leftovers": list(_aside(runs, "*"))}, dry_run))


def _of_training(
    folder: StudyFolder, config: StudyConfig, with_states: bool
) -> tuple[dict[str, list[Path]], str | None]:
    """Return the states and models that nothing needs, and why others stay, if they do."""
    study = known_study(str(folder.path))
    with opened_run(study) as run:
        if not study.is_over(run.record) or not run.is_trained or lacks_model(study, run):
            return {}, "its states and models stay: it is not over"
    best = [*run.history.leaders(config.study.checkpoints), *([run.winner] if run.winner else [])]
    needed = {checkpoint_name(trial.number) for trial in best}
    needed |= {Path(run.model.checkpoint_dir).name} if run.model else set()
    models = [path for path in folder.checkpoints_dir.glob(_OWN) if path.name not in needed]
    states = [*folder.states_dir.glob(_OWN)]
    if states and not with_states and any(trial.amount is not None for trial in run.searched):
        return {"models": models}, "its states stay: a larger budget goes on from them (--states frees them, too)"
    return {"states": states, "models": models}, None


def _logs(folder: StudyFolder) -> Iterator[Path]:
    """Yield the logs of complete trials, as far as trials.csv has them."""
    if not folder.trials_path.is_file():
        return
    with folder.trials_path.open(newline="", encoding="utf-8", errors="replace") as table:
        for row in csv.DictReader(table):
            if row.get("state") == "complete" and str(row.get("number", "")).isdecimal():
                yield from folder.logs_dir.glob(folder.log_path(int(row["number"]), "*").name)


def _aside(folder: Path, *patterns: str) -> Iterator[Path]:
    for pattern in patterns:
        for path in folder.glob(pattern):
            is_old = time.time() - path.lstat().st_mtime > _SECONDS_ASIDE
            if _ASIDE.fullmatch(path.name) and is_old and not path.is_symlink():
                yield path


def _delete(unneeded: Mapping[str, list[Path]], dry_run: bool) -> dict[str, int]:
    """Delete the files and folders; return their bytes by kind."""
    freed = {kind: sum(map(_size, paths)) for kind, paths in unneeded.items() if paths}
    for path in (path for paths in unneeded.values() if not dry_run for path in paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return freed


def _size(path: Path) -> int:
    size = 0
    for each in (path, *path.rglob("*")):
        # It may go meanwhile, where it is only looked at.
        with suppress(FileNotFoundError):
            size += 0 if each.is_dir() and not each.is_symlink() else each.lstat().st_size
    return size
