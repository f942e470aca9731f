"""The SQLite file of a study without `study.storage`.

A backup and a mark file protect this file. The mark file stores the record's progress; see `Guard`.
"""

import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from hpo.errors import StudyError

_log = logging.getLogger(__name__)

# The least time between two backups: this many seconds, and this many times the duration of the last backup.
_SECONDS_BETWEEN = 30.0
_TIMES_ITS_DURATION = 50.0
# The suffixes of a database and its logs. Treat these files together: SQLite would apply a left-over log to the next
# database of the same name.
DATABASE_SUFFIXES = ("", "-wal", "-shm")


class DamagedRecordError(StudyError):
    """The record is missing, damaged or unreadable, or its file is an older copy of the record."""


class MovedRecordError(StudyError):
    """The record's file was removed, moved or replaced while the study was open."""

    exit_code = 1


@dataclass(frozen=True)
class Mark:
    """The progress of a record: the id of the study and the record's number of rows, which never decreases."""

    study_id: str
    rows: int


class Guard:
    """Updates the mark file of a record after every write, and the record's backup from time to time.

    The mark file stores a `Mark`. An update usually takes microseconds. The mark is written after the rows, so a record
    may have more rows than its mark says, but not fewer. A record with fewer rows is an older copy, or has lost rows.

    Before a backup, `refuse_damaged` checks that the record can be read and has at least as many rows as the mark says.
    A new backup replaces the previous backup only if `refuse_damaged` raises no StudyError, and if the new backup is
    complete and sound.
    """

    def __init__(self, path: Path, mark: Mark, refuse_damaged: Callable[[Mark], None]) -> None:
        self._path = path
        self._status = path.stat()
        self._mark = mark
        self._refuse_damaged = refuse_damaged
        self._written = 0
        self._file = os.open(mark_path(path), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        self._next_backup = time.monotonic() + _SECONDS_BETWEEN
        self._has_warned = False
        self.count_rows(0)

    def count_rows(self, rows: int, study_id: str | None = None) -> None:
        """Add `rows` to the row count in the mark file, and make a backup if a backup is due.

        If `study_id` is given, also write this id into the mark file.

        Raises:
            MovedRecordError: the record is no longer at its path.
        """
        self._mark = Mark(study_id or self._mark.study_id, self._mark.rows + rows)
        self._written += rows
        # Overwrite the mark in place, with a constant length. This takes 2 microseconds; replacing the file would take
        # 100.
        with suppress(OSError):
            os.pwrite(self._file, f"{self._mark.study_id:<32} {self._mark.rows:>12}\n".encode(), 0)
        self._refuse_moved()
        if time.monotonic() > self._next_backup:
            self._back_up()

    def end(self) -> None:
        """Close the mark file. If rows were written since the previous backup, make a last backup.

        Raises:
            MovedRecordError: the record is no longer at its path.
        """
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        self._refuse_moved()
        if self._written:
            self._back_up()

    def _refuse_moved(self) -> None:
        # SQLite would go on writing to the open file.
        with suppress(FileNotFoundError):
            if os.path.samestat(self._path.stat(), self._status):
                return
        raise MovedRecordError(
            f"record: {self._path} was removed, moved or replaced while the study was open; if it was moved, no "
            f"outcome is lost: move its folder back, then run `hpo resume`; if not, start the study again"
        )

    def _back_up(self) -> None:
        """Back up the database. If this fails, continue; warn only the first time."""
        began = time.monotonic()
        try:
            self._refuse_damaged(self._mark)
            _copy(self._path, backup_path(self._path))
            self._written = 0
        except (OSError, sqlite3.Error, StudyError) as error:
            if not self._has_warned:
                message = "record: %s cannot be backed up (%s); the search continues, and the previous backup stays"
                _log.warning(message, self._path, error)
            self._has_warned = True
        now = time.monotonic()
        self._next_backup = now + max(_SECONDS_BETWEEN, _TIMES_ITS_DURATION * (now - began))


def read_mark(path: Path) -> Mark | None:
    """Return the mark of the database at `path`: the id of the study and the record's number of rows.

    Return None if the mark file is missing or unreadable.
    """
    try:
        if not mark_path(path).is_file():
            return None
        study_id, rows = mark_path(path).read_text(encoding="ascii").split()
        return Mark(study_id, int(rows))
    except (OSError, ValueError):
        return None


def mark_path(path: Path) -> Path:
    """Return the path of the file that stores a database's `Mark`."""
    return path.with_name(f"{path.name}.mark")


def backup_path(path: Path) -> Path:
    """Return the path of a database's backup."""
    return path.with_name(f"{path.name}.backup")


def refuse_damaged_file(path: Path) -> None:
    """Raise DamagedRecordError if the file is missing or empty, or if SQLite's own checks find damage.

    Raise `sqlite3.OperationalError` if the file is locked or cannot be opened.
    """
    if not path.exists():
        raise DamagedRecordError(f"{path} is missing")
    try:
        with closing(connect(path)) as connection:
            (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            orphan = connection.execute("PRAGMA foreign_key_check").fetchone()
    except sqlite3.OperationalError:
        raise  # The file is locked or cannot be opened, but may well be sound.
    except sqlite3.DatabaseError as error:
        raise DamagedRecordError(f"{path} is damaged: {error}") from error
    if result != "ok":
        raise DamagedRecordError(f"{path} is damaged: {' '.join(result.split())[:200]}")
    if not tables:
        raise DamagedRecordError(f"{path} is empty")
    if orphan is not None:
        raise DamagedRecordError(f"{path} is damaged: its table {orphan[0]} refers to missing rows of {orphan[2]}")


def copy_of_backup(path: Path) -> Path | None:
    """Copy the backup, so that the copy can be checked, and return the copy's path; None if there is no backup."""
    copy = path.with_name(f"{path.name}.recovered")
    for suffix in DATABASE_SUFFIXES:
        copy.with_name(copy.name + suffix).unlink(missing_ok=True)
    if not backup_path(path).is_file():
        return None
    shutil.copyfile(backup_path(path), copy)
    return copy


def replace_database(path: Path, other: Path) -> Path:
    """Move the old database at `path` to a new name in the same folder, and move the database `other` to `path`.

    Return the new path of the old database. If there was no old database, nothing exists at the returned path.
    """
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in DATABASE_SUFFIXES:
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    other.rename(path)
    return aside


def _copy(path: Path, target: Path) -> None:
    aside = target.with_name(f".{target.name}")
    aside.unlink(missing_ok=True)
    try:
        copy_database(path, aside)
        refuse_damaged_file(aside)
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def copy_database(path: Path, target: Path) -> Path:
    """Copy a database, even while other processes write to it, and return the path of the copy."""
    with closing(connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
    return target


def connect(path: Path, timeout_seconds: float = 60.0, check_same_thread: bool = True) -> sqlite3.Connection:
    """Connect to an existing database; if it does not exist, raise an error instead of creating it."""
    url = f"file:{quote(str(path.absolute()))}?{'immutable=1' if is_frozen(path) else 'mode=rw'}"
    return sqlite3.connect(url, timeout_seconds, check_same_thread=check_same_thread, uri=True)


def may_be_written(path: Path) -> bool:
    """Return whether this user may write to a database and may create its write-ahead log in the same folder."""
    return all(os.access(place, os.W_OK) for place in (path, path.parent) if place.exists())


def is_frozen(path: Path) -> bool:
    """Return whether a database must be opened as immutable.

    True if this user cannot write to the database, and its write-ahead log is missing or empty.
    """
    log = path.with_name(f"{path.name}-wal")
    return not may_be_written(path) and not (log.exists() and log.stat().st_size > 0)
