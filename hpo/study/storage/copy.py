"""Copies a study. The copy has the same trials under another name and id, and is independent of the original."""

import os
import shutil
import uuid
from pathlib import Path

from hpo.config.keys import flatten
from hpo.config.study_config import StudyConfig, study_name
from hpo.errors import StudyError
from hpo.files import copy_tree
from hpo.machine import user_name
from hpo.study.files.folder import RUNS, StudyFolder
from hpo.study.notes import Notes
from hpo.study.preparing.preparation import load_study
from hpo.study.study import PreparedStudy
from hpo.trials.record.storage import copy_renamed, open_rows, sqlite_url
from hpo.trials.space.reader import space_from_dict

# Not copied with the folder: locks, the list of mirror copies, files of a running search, and reports with the old
# name. `_write_record` copies the database.
_EXCLUDED = (
    *("driver.lock", "mlflow.lock", "mirrored.txt", "reproduction.json", "status.json", "running.json", "requests"),
    *("study.db*", "report.*", "checklist.md", "tables.tex"),
)


def continue_as(folder: StudyFolder, name: str, config: StudyConfig, allow_changes: bool) -> PreparedStudy:
    """Copy a study under another name, and prepare the copy so that it can continue; see `load_study`.

    Check the study before the copy, so that a failed check leaves no copy.
    """
    load_study(str(folder), config, allow_changes)
    copied = copy_study(folder, study_name(name, "name of the copy"))
    return load_study(str(copied), config.with_study(name=name), allow_changes)


def copy_study(folder: StudyFolder, name: str) -> StudyFolder:
    """Copy a study to `runs/<name>` in one step.

    Raises:
        StudyError: the study runs, its record is missing or is in `study.storage`, or the target exists.
    """
    config, target = folder.config(), StudyFolder(RUNS / name)
    if config.study.storage is not None:
        raise StudyError(
            "copy: the record is in the database study.storage, so the study cannot be copied; write the study's "
            "trials to a file with `hpo export`"
        )
    if target.path.exists():
        raise StudyError(f"copy: {target} already exists; choose another name")
    copied = config.with_study(name=name)
    temporary = StudyFolder(target.path.with_name(f".{name}-{os.getpid()}"))
    with folder.lock():
        try:
            copy_tree(folder.path, temporary.path, excluded=_EXCLUDED)
            _write_record(folder.database_path, temporary.database_path, config, copied)
            temporary.freeze(copied)
            temporary.path.rename(target.path)
        finally:
            shutil.rmtree(temporary.path, ignore_errors=True)
    return target


def _write_record(path: Path, target: Path, config: StudyConfig, copied: StudyConfig) -> None:
    if not path.exists():
        again = f"`hpo resume {config.study.name}` restores the record from its backup"
        raise StudyError(f"record: {path} is missing; {again}")
    name, other = config.study.name, copied.study.name
    copy_renamed(path, target, name, other, uuid.uuid4().hex)
    space = space_from_dict(config.space, flatten(config.objective_config))
    rows = open_rows(sqlite_url(target), other, space)
    notes = Notes(rows)
    notes.user = user_name() or None
    notes.config = {**notes.config, "study": copied.to_dict()["study"]}
    rows.dispose()
