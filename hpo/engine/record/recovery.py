"""Opens a record to continue it; one that is damaged, missing or an older copy is replaced by its backup."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from hpo.engine.record.address import sqlite_url
from hpo.engine.record.guard import (
    DamagedRecordError,
    Mark,
    backup_path,
    copy_of_backup,
    put_in_place,
    read_mark,
)
from hpo.engine.record.record import Record
from hpo.engine.record.rows import OptunaRows
from hpo.engine.record.storage import Stored, guard, open_record, open_rows, read_rows, refuse_short
from hpo.errors import StudyError

_log = logging.getLogger(__name__)


def read_record(study: Stored) -> Record:
    """Open the record of an existing study for reading; a search may be writing it.

    Raises:
        StudyError: there is no such study in the storage, or its record is not whole.
    """
    # Before the rows, since a search may write more of them: a record is never behind its mark.
    mark = _mark(study)
    opened = _open(study)
    _refuse_short(opened.rows, mark)
    opened.rows.tell_others()
    return opened.record


def _mark(study: Stored) -> Mark | None:
    return None if study.own_file is None else read_mark(study.own_file)


def _refuse_short(rows: OptunaRows, mark: Mark | None) -> None:
    if mark is None:
        return
    path = Path(rows.address)
    _refuse_another(path, rows.mark(), mark)
    refuse_short(rows, path, mark)


@dataclass(frozen=True)
class _Opened:
    """A readable record, and how far it has come."""

    record: Record
    rows: OptunaRows
    mark: Mark


def continue_record(study: Stored) -> Record:
    """Open the record of an existing study to continue it; the caller holds the study's lock.

    What a backup lacks is trained again, to the same results. Only a study's own file has a backup.

    Raises:
        StudyError: there is no such study in the storage, or it is damaged and there is no sound backup.
    """
    path = study.own_file
    if path is None:
        return open_record(study)
    mark = read_mark(path)
    try:
        opened = _open(study)
    except DamagedRecordError as error:
        opened = _recovered(path, study, mark, None, str(error))
    else:
        try:
            _refuse_short(opened.rows, mark)
        except DamagedRecordError as error:
            opened = _recovered(path, study, mark, opened, str(error))
    guard(opened.rows, path, study, opened.mark)
    opened.rows.tell_others()
    return opened.record


def _open(study: Stored) -> _Opened:
    rows = open_rows(study.url, study.name, study.space)
    record = read_rows(rows, study)
    return _Opened(record, rows, rows.mark())


def _refuse_another(path: Path, actual: Mark, expected: Mark | None) -> None:
    if expected is not None and expected.study_id != actual.study_id:
        raise StudyError(
            f"record: {path} is the record of another study of that name; restore this study's own, or remove it: "
            f"then {backup_path(path)} replaces it"
        )


def _recovered(path: Path, study: Stored, mark: Mark | None, opened: _Opened | None, reason: str) -> _Opened:
    """Return the record with more rows of the backup and the opened one; raise where there is neither."""
    backup, why = _backup(path, study, mark)
    if backup is None or (opened is not None and backup.mark.rows <= opened.mark.rows):
        if opened is None:
            raise StudyError(
                f"record: {reason}, and there is no sound backup of it{why}; restore a good copy, or start again with "
                f"another study.name"
            )
        _log.warning("record: %s, and so is its backup; what is missing is trained again", reason)
        return opened
    for each in (backup, opened):
        if each is not None:
            each.record.close()
    aside = put_in_place(path, Path(backup.rows.address))
    kept = f", which is kept as {aside.name}" if aside.exists() else ""
    _log.warning("record: %s%s; its backup has replaced it, and what that lacks is trained again", reason, kept)
    return _open(study)


def _backup(path: Path, study: Stored, mark: Mark | None) -> tuple[_Opened | None, str]:
    """Return an opened copy of the backup; None and why where it is missing, damaged, or of another study."""
    copy = copy_of_backup(path)
    if copy is None:
        return None, ""
    try:
        backup = _open(replace(study, url=sqlite_url(copy)))
        _refuse_another(copy, backup.mark, mark)
    except StudyError as error:
        return None, f" ({str(error).replace(str(copy), backup_path(path).name)})"
    return backup, ""
