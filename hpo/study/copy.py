"""A copy of a study that is a study of its own: with another name, another identity, and the same trials."""

import os
import shutil
import uuid
from pathlib import Path

from hpo.config.keys import flatten
from hpo.config.study_config import StudyConfig
from hpo.engine.record.address import sqlite_url
from hpo.engine.record.storage import LAST_NOTE, copy_record, open_rows
from hpo.engine.space.reader import space_from_dict
from hpo.errors import StudyError
from hpo.study.folder import RUNS, StudyFolder

# What a copy makes anew, or what tells of the study that it was: locks, the guard's files, a database's companions, and
# reports, which name it.
_LEFT = ("driver.lock", "mlflow.lock", "study.db*", "report.*", "checklist.md", "tables.tex")


def copy_study(folder: StudyFolder, name: str) -> StudyFolder:
    """Copy the study to `runs/<name>`, and return its folder there; nothing of it is there before all of it is.

    Args:
        folder: of the study, which nobody may be running.
        name: of the copy.

    Raises:
        StudyError: there is something of that name, or the record lies in a storage of its own.
    """
    config, target = folder.config(), StudyFolder(RUNS / name)
    if config.study.storage is not None:
        raise StudyError("--as: a record that lies in study.storage is not copied; `hpo export` copies its trials")
    if target.path.exists():
        raise StudyError(f"--as: {target} is there already; choose another name")
    copied = config.model_copy(update={"study": config.study.model_copy(update={"name": name})})
    aside = StudyFolder(target.path.with_name(f".{name}-{os.getpid()}"))
    with folder.lock():
        try:
            shutil.copytree(folder.path, aside.path, ignore=shutil.ignore_patterns(*_LEFT))
            aside.path.chmod(0o700)
            _copy_record(folder.database_path, aside.database_path, config, copied)
            aside.freeze(copied)
            aside.path.rename(target.path)
        finally:
            shutil.rmtree(aside.path, ignore_errors=True)
    return target


def _copy_record(path: Path, target: Path, config: StudyConfig, copied: StudyConfig) -> None:
    if not path.exists():
        raise StudyError(f"record: {path} is missing; `hpo resume {config.study.name}` puts its backup in its place")
    name, other = config.study.name, copied.study.name
    copy_record(path, target, name, other)
    space = space_from_dict(config.space, flatten(config.objective_config))
    rows = open_rows(sqlite_url(target), other, space)
    rows.note(LAST_NOTE, uuid.uuid4().hex)
    if rows.noted("config") is not None:
        rows.note("config", {**rows.noted("config"), "study": copied.to_dict()["study"]})
    rows.dispose()
