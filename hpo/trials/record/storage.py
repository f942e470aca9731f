"""Creates, reads and continues a record in an Optuna storage: the study's own file, or one given by address."""

import functools
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from hpo.config.secrets import hide_secrets
from hpo.errors import StudyError, first_line
from hpo.machine import machine_faults
from hpo.trials.goal import Goal
from hpo.trials.record import own_file
from hpo.trials.record.optuna_tables import rename_study
from hpo.trials.record.own_file import DamagedRecordError, Mark, backup_path, connect, is_frozen
from hpo.trials.record.record import FIRST, FORM, LAST, Record
from hpo.trials.record.rows import OptunaRows, name_metrics
from hpo.trials.space.space import Space
from hpo.trials.trial import TaskLayout

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stored:
    """Where the record of a study is, and what must be known to read it.

    Only a storage that `is_own`, of this study alone, is marked and backed up: for others in it that would be wrong.
    `check` gets the format number that the record notes, before anything else is read, and raises StudyError.
    """

    url: str
    name: str
    space: Space
    goal: Goal
    layout: TaskLayout
    check: Callable[[Any], None]
    is_own: bool = False

    @property
    def own_file(self) -> Path | None:
        """The file of SQLite that holds this study only; None for other storages."""
        return sqlite_path(self.url) if self.is_own else None


# The rows of a record that can be read, and the record.
_Opened = tuple[OptunaRows, Record]


def create_record(study: Stored) -> Record:
    """Create an empty record for a new study; StudyError where the storage holds that name, or cannot be opened."""
    storage, name = _open_with_write_ahead(study.url), study.name
    try:
        if name in optuna.get_all_study_names(storage) and _is_half_made(storage, name):
            optuna.delete_study(study_name=name, storage=storage)
        study_id = storage.create_new_study(
            [StudyDirection[direction.upper()] for direction in study.goal.metrics.values()], name
        )
    except optuna.exceptions.DuplicatedStudyError as error:
        raise StudyError(f"study.storage: holds a study '{name}' already; choose another study.name") from error
    if len(study.goal.metrics) > 1:
        name_metrics(optuna.load_study(study_name=name, storage=storage), [*study.goal.metrics])
    rows = OptunaRows(storage, study_id, study.space)
    if (path := study.own_file) is not None:
        for left_over in (own_file.mark_path(path), backup_path(path)):
            left_over.unlink(missing_ok=True)
        _guard(rows, study, path, Mark("", 0))
    return Record(rows, study.goal, study.layout)


def read_record(study: Stored) -> Record:
    """Open the record of an existing study for reading; StudyError where it is not there, or not whole."""
    # Before the rows, since a search may write more of them: a record is never behind its mark.
    mark = own_file.read_mark(study.own_file) if study.own_file else None
    rows, record = _open(study)
    _refuse_behind(rows, mark)
    rows.warn_of_other_trials()
    return record


def continue_record(study: Stored) -> Record:
    """Open the record of an existing study to continue it; the caller holds the study's lock.

    One that is damaged, missing or an older copy is replaced by its backup, which only a study's own file has. What
    that lacks is trained again, to the same results. StudyError where there is no such study, or no sound backup.
    """
    path = study.own_file
    if path is None:
        return read_record(study)
    mark, opened = own_file.read_mark(path), None
    try:
        opened = _open(study)
        _refuse_behind(opened[0], mark)
    except DamagedRecordError as error:
        opened = _recover(study, path, mark, opened, str(error))
    rows, record = opened
    _guard(rows, study, path, rows.mark())
    rows.warn_of_other_trials()
    return record


def _recover(study: Stored, path: Path, mark: Mark | None, opened: _Opened | None, reason: str) -> _Opened:
    """Return the record with more rows of the backup and the opened one; raise where there is neither."""
    backup, why, copy = None, "", own_file.copy_of_backup(path)
    if copy is not None:
        try:
            backup = _open(replace(study, url=sqlite_url(copy)))
            _refuse_another(backup[0], mark)
        except StudyError as error:
            backup, why = None, f" ({str(error).replace(str(copy), backup_path(path).name)})"
    if backup is None and opened is None:
        raise StudyError(
            f"record: {reason}, and there is no sound backup of it{why}; restore a good copy, or start again with "
            f"another study.name"
        )
    if opened is not None and (backup is None or backup[0].mark().rows <= opened[0].mark().rows):
        _log.warning("record: %s, and so is its backup; what is missing is trained again", reason)
        return opened
    for each in filter(None, (backup, opened)):
        each[1].close()
    assert copy is not None
    aside = own_file.replace_database(path, copy)
    kept = f", which is kept as {aside.name}" if aside.exists() else ""
    _log.warning("record: %s%s; its backup has replaced it, and what that lacks is trained again", reason, kept)
    return _open(study)


def open_rows(url: str, name: str, space: Space) -> OptunaRows:
    """Open the rows of an existing study without reading them; StudyError where it is not in the storage."""
    storage, study_id = _find(url, name)
    return OptunaRows(storage, study_id, space)


def _open(study: Stored) -> _Opened:
    rows = open_rows(study.url, study.name, study.space)
    study.check(rows.read_note(FORM))
    return rows, _read(rows, study)


def _read(rows: OptunaRows, study: Stored) -> Record:
    """Return the record that these rows hold; DamagedRecordError where they are not those that were written."""
    with name_damage(rows):
        return Record(rows, study.goal, study.layout)


def _guard(rows: OptunaRows, study: Stored, path: Path, mark: Mark) -> None:
    """Let a guard watch the rows of a study's own file."""

    def refuse_damaged(mark: Mark) -> None:
        _read(rows, study)
        _refuse_behind(rows, mark)

    rows.guard = own_file.Guard(path, mark, refuse_damaged)


def _refuse_another(rows: OptunaRows, mark: Mark | None) -> None:
    if mark is not None and mark.study_id != rows.mark().study_id:
        path = Path(rows.address)
        raise StudyError(
            f"record: {path} is the record of another study of that name; restore this study's own, or remove it: "
            f"then {backup_path(path)} replaces it"
        )


def _refuse_behind(rows: OptunaRows, mark: Mark | None) -> None:
    """Raise DamagedRecordError where the rows, as they were read, are fewer than the mark says."""
    _refuse_another(rows, mark)
    if mark is not None and (number := rows.mark().rows) < mark.rows:
        raise DamagedRecordError(f"{rows.address} is an older copy, or has lost rows: it holds {number} of {mark.rows}")


@contextmanager
def name_damage(rows: OptunaRows) -> Iterator[None]:
    """Raise DamagedRecordError for any error inside; StudyError where another process has the record."""
    try:
        yield
    except DamagedRecordError:
        raise
    except Exception as error:
        # Damage causes errors of every kind: SQLite's, of JSON, of numbers, names that do not exist.
        if _is_locked(error):
            raise StudyError(f"record: {rows.address} is locked by another process; end that first") from error
        raise DamagedRecordError(f"{rows.address} is damaged: {first_line(error)}") from error


def copy_renamed(path: Path, target: Path, name: str, other: str) -> None:
    """Copy a study's file, which nothing may be writing, and rename the study in the copy."""
    with closing(sqlite3.connect(own_file.copy_database(path, target))) as copy:
        is_renamed = rename_study(copy, name, other)
    if not is_renamed:
        # Optuna's public call takes milliseconds per trial.
        target.unlink()
        addresses = {"from_storage": sqlite_url(path), "to_storage": sqlite_url(target)}
        optuna.copy_study(from_study_name=name, to_study_name=other, **addresses)


def look_up(url: str, name: str) -> tuple[int, Mapping[str, Any]]:
    """Return Optuna's number of a study and its notes, without reading its trials; StudyError where it is missing."""
    storage, study_id = _find(url, name)
    notes = storage.get_study_user_attrs(study_id)
    storage.remove_session()
    return study_id, notes


def _find(url: str, name: str) -> tuple[RDBStorage, int]:
    path = sqlite_path(url)
    if path is not None:
        with machine_faults("record: cannot be read", path):
            own_file.refuse_damaged_file(path)
    storage = _open_with_write_ahead(url)
    try:
        return storage, storage.get_study_id_from_name(name)
    except KeyError as error:
        raise StudyError(f"record: there is no study '{name}' in {hide_secrets(url, {})}") from error


def _is_half_made(storage: RDBStorage, name: str) -> bool:
    """Return whether our driver died or failed while it created this study."""
    study_id = storage.get_study_id_from_name(name)
    notes = storage.get_study_user_attrs(study_id)
    return FIRST in notes and LAST not in notes and storage.get_n_trials(study_id) == 0


def _open_with_write_ahead(url: str) -> RDBStorage:
    refuse_unusable(url)
    path = sqlite_path(url)
    storage = open_storage(
        url, "record", "; study.storage must be null, or an Optuna storage such as sqlite:///file.db"
    )
    if path is not None and own_file.may_be_written(path):
        event.listen(storage.engine, "connect", _write_ahead)
        storage.engine.dispose()
    return storage


def _write_ahead(connection: Any, _record: Any) -> None:
    """Log writes ahead: half the time per trial; only a crash of the machine can lose some, which are trained again."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    # Another program may hold the file for a while, such as one that copies it.
    connection.execute("PRAGMA busy_timeout=60000")


def _is_locked(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return True
        cause = cause.__cause__
    return False


# The one placeholder that Optuna fills into an address.
_MARK = "{SCHEMA_VERSION}"


def sqlite_path(url: str) -> Path | None:
    """Return the file of a SQLite storage; None for other storages."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return None
    return Path(parsed.database) if parsed.drivername.startswith("sqlite") and parsed.database else None


def sqlite_url(path: Path) -> str:
    """Return the address of a SQLite file as a storage; % and ? have a meaning in addresses."""
    return f"sqlite:///{str(path.absolute()).replace('%', '%25').replace('?', '%3F')}"


def refuse_unusable(url: str, values: Mapping[str, str] = {}) -> None:
    """Raise StudyError for a `study.storage` that SQLAlchemy cannot use, or without a file; hide secret `values`."""
    told = hide_secrets(url, values)
    try:
        parsed = make_url(url)
        parsed.get_dialect().import_dbapi()
    except (ArgumentError, ImportError, ValueError) as error:
        raise StudyError(
            f"study.storage: {told} cannot be used: {hide_secrets(first_line(error), values)}; it must be null, or an "
            f"Optuna storage such as sqlite:///file.db"
        ) from error
    if not parsed.drivername.startswith("sqlite"):
        return
    if not parsed.database or parsed.database.startswith((":memory:", "file:")):
        raise StudyError(f"study.storage: '{told}' does not name a file; give one, such as sqlite:///file.db, or null")
    if not (folder := Path(parsed.database).parent).is_dir():
        raise StudyError(f"study.storage: there is no folder {folder} for '{told}'; make it, or give another file")


def open_storage(url: str, where: str, hint: str = "") -> RDBStorage:
    """Open an Optuna storage, also a new file of SQLite; a StudyError begins with `where` and ends with `hint`."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = sqlite_path(url)
    # Optuna takes braces for placeholders, also in a folder's name.
    address = url.replace("{", "{{").replace("}", "}}").replace(f"{{{_MARK}}}", _MARK)
    options: dict[str, Any] = {}
    if path is not None and is_frozen(path):
        # SQLAlchemy's connections go from thread to thread.
        options["creator"] = functools.partial(connect, path, check_same_thread=False)
    try:
        return RDBStorage(address, options, skip_compatibility_check=path is not None and _is_of_this_optuna(path))
    except Exception as error:
        # SQLAlchemy, its drivers and Optuna each raise their own kinds; all mean that it cannot be opened.
        raise StudyError(hide_secrets(f"{where}: cannot open {url}: {first_line(error)}{hint}", {})) from error


def _is_of_this_optuna(path: Path) -> bool:
    """Return whether this Optuna made a file of SQLite: to find that out itself, it takes a tenth of a second."""
    if not path.is_file():
        return False
    with suppress(sqlite3.Error), closing(connect(path, timeout_seconds=5.0)) as connection:
        return connection.execute("SELECT library_version FROM version_info").fetchall() == [(optuna.__version__,)]
    return False
