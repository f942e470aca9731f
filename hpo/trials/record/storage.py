"""Creates, reads and continues records in Optuna storages: in a study's own SQLite file, or at the user's URL."""

import functools
import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
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
from hpo.trials.record.record import FIRST, FORM, LAST, STUDY, Record
from hpo.trials.record.rows import OptunaRows, name_metrics
from hpo.trials.space.space import Space
from hpo.trials.trial import TaskLayout

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stored:
    """The storage of a study's record, with the data needed to read the record.

    Attributes:
        url: the URL of the Optuna storage.
        name: the name of the study.
        space: the search space.
        goal: the goal of the search.
        layout: the tasks of a trial.
        check: a function that is called with the record's format number before anything else is read. The function
            may raise StudyError.
        is_own: whether the storage is the study's own SQLite file. Such a file holds no other study. A mark file and a
            backup protect the SQLite file; see `hpo.trials.record.own_file`.
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
        """The path of the study's own SQLite file; None if the record is in another storage."""
        return sqlite_path(self.url) if self.is_own else None


# The rows of a record, and the record.
_Opened = tuple[OptunaRows, Record]


def create_record(study: Stored) -> Record:
    """Create an empty record for a new study; replace a record whose driver died while it created the record.

    Raises:
        StudyError: the storage cannot be opened, or already holds a study with this name.
    """
    storage, name = _open_with_write_ahead(study.url), study.name
    try:
        if name in optuna.get_all_study_names(storage) and _is_half_made(storage, name):
            optuna.delete_study(study_name=name, storage=storage)
        study_id = storage.create_new_study(
            [StudyDirection[direction.upper()] for direction in study.goal.metrics.values()], name
        )
    except optuna.exceptions.DuplicatedStudyError as error:
        raise StudyError(f"study.storage: already holds a study '{name}'; choose another study.name") from error
    if len(study.goal.metrics) > 1:
        name_metrics(optuna.load_study(study_name=name, storage=storage), [*study.goal.metrics])
    rows = OptunaRows(storage, study_id, study.space)
    if (path := study.own_file) is not None:
        for left_over in (own_file.mark_path(path), backup_path(path)):
            left_over.unlink(missing_ok=True)
        _guard(rows, study, path, Mark("", 0))
    return Record(rows, study.goal, study.layout)


def read_record(study: Stored) -> Record:
    """Open the record of an existing study for reading.

    Raises:
        StudyError: the record is missing or damaged, or `Stored.check` refuses its format.
    """
    # Read the mark before the rows, because a search may be writing: rows that are read later than the mark are never
    # fewer than the mark says, unless rows were lost.
    mark = own_file.read_mark(study.own_file) if study.own_file else None
    rows, record = _open(study)
    _refuse_behind(rows, mark)
    rows.warn_of_other_trials()
    return record


def continue_record(study: Stored) -> Record:
    """Open the record of an existing study to continue it; the caller must hold the study's lock.

    If the study's own SQLite file is missing or unreadable, the backup replaces the file. If the file is readable but
    lacks rows of the record, the backup replaces the file only if the backup has more rows. Trainings whose outcomes
    are lost run again, with the same results.

    Raises:
        StudyError: the study does not exist, or its record cannot be read and has no sound backup. Also raised if the
            file belongs to another study.
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
    """Return `opened`, or replace the file at `path` by its backup and return the backup's record.

    Use a sound backup if the record could not be opened (`opened` is None), or if the backup has more rows than the
    record. If `opened` is None and there is no sound backup, raise StudyError. `mark` is the content of the mark file,
    and `reason` says what is wrong with the record.
    """
    backup, why, copy = None, "", own_file.copy_of_backup(path)
    if copy is not None:
        try:
            backup = _open(replace(study, url=sqlite_url(copy)))
            _refuse_another(backup[0], mark)
        except StudyError as error:
            backup, why = None, f" ({str(error).replace(str(copy), backup_path(path).name)})"
    if backup is None and opened is None:
        raise StudyError(
            f"record: {reason}, and the record has no sound backup{why}; restore a good copy of the file, or start "
            f"again with another study.name"
        )
    if opened is not None and (backup is None or backup[0].mark().rows <= opened[0].mark().rows):
        _log.warning(
            "record: %s; the search continues with %s, not with its backup, because the backup is missing, is unusable "
            "or has no more rows than the file; tasks without outcomes run again",
            reason,
            path.name,
        )
        return opened
    for each in filter(None, (backup, opened)):
        each[1].close()
    assert copy is not None
    aside = own_file.replace_database(path, copy)
    old = f" (now {aside.name})" if aside.exists() else ""
    _log.warning("record: %s%s; the backup has replaced the file, and tasks without outcomes run again", reason, old)
    return _open(study)


def open_rows(url: str, name: str, space: Space) -> OptunaRows:
    """Open the rows of a study without reading them; raise StudyError if the storage does not hold the study."""
    storage, study_id = _find(url, name)
    return OptunaRows(storage, study_id, space)


def _open(study: Stored) -> _Opened:
    rows = open_rows(study.url, study.name, study.space)
    study.check(rows.read_note(FORM))
    return rows, _read(rows, study)


def _read(rows: OptunaRows, study: Stored) -> Record:
    """Return the record of these rows; any error becomes DamagedRecordError, or StudyError if the record is locked."""
    try:
        return Record(rows, study.goal, study.layout)
    except DamagedRecordError:
        raise
    except Exception as error:
        # A damaged file can cause errors of any type.
        if _is_locked(error):
            raise StudyError(f"record: {rows.address} is locked by another process; end that process first") from error
        raise DamagedRecordError(f"{rows.address} is damaged: {first_line(error)}") from error


def _guard(rows: OptunaRows, study: Stored, path: Path, mark: Mark) -> None:
    """Attach a `Guard`, which keeps the mark file and the backup of the file at `path` up to date."""

    def refuse_damaged(mark: Mark) -> None:
        _read(rows, study)
        _refuse_behind(rows, mark)

    rows.guard = own_file.Guard(path, mark, refuse_damaged)


def _refuse_another(rows: OptunaRows, mark: Mark | None) -> None:
    if mark is not None and mark.study_id != rows.mark().study_id:
        path = Path(rows.address)
        raise StudyError(
            f"record: {path} belongs to another study with the same name; restore this study's file, or remove {path}, "
            f"so that the backup {backup_path(path)} replaces it"
        )


def _refuse_behind(rows: OptunaRows, mark: Mark | None) -> None:
    """Raise StudyError if `mark` is of another study, or DamagedRecordError if it states more rows than there are."""
    _refuse_another(rows, mark)
    if mark is not None and (number := rows.mark().rows) < mark.rows:
        raise DamagedRecordError(
            f"{rows.address} has only {number} of {mark.rows} rows: it is an older copy of the record, or rows were "
            f"lost"
        )


def copy_renamed(path: Path, target: Path, name: str, other: str, study_id: str) -> None:
    """Copy the SQLite file of a single study to `target`; in the copy, the study has the name `other` and the new id.

    `name` is the study's present name. No process may write to the file meanwhile.
    """
    with closing(sqlite3.connect(own_file.copy_database(path, target))) as copy:
        is_renamed = rename_study(copy, name, other, study_id)
    if is_renamed:
        return
    # The tables are not as expected, so use Optuna's public calls, which take milliseconds per trial.
    target.unlink()
    original = optuna.load_study(study_name=name, storage=sqlite_url(path))
    copied = optuna.create_study(study_name=other, storage=sqlite_url(target), directions=original.directions)
    if original.metric_names is not None:
        name_metrics(copied, original.metric_names)
    for key, value in {**original.user_attrs, LAST: study_id}.items():
        copied.set_user_attr(key, value)
    trials = original.get_trials()
    for trial in trials:
        if trial.user_attrs.get(STUDY) == original.user_attrs.get(LAST):
            trial.set_user_attr(STUDY, study_id)
    copied.add_trials(trials)


def look_up(url: str, name: str) -> tuple[int, Mapping[str, Any]]:
    """Return Optuna's id of a study and the study's notes, without reading trials.

    Raises:
        StudyError: the storage does not hold the study.
    """
    storage, study_id = _find(url, name)
    notes = storage.get_study_user_attrs(study_id)
    storage.remove_session()
    storage.engine.dispose()
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
    """Return whether a driver died or failed while creating this study."""
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
    """Use SQLite's write-ahead logging, which writes a trial in half the time that SQLite's default takes.

    Only a crash of the machine can lose writes. Trainings whose outcomes are lost this way run again.
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    # Another program may lock the file for a while, for example to copy it.
    connection.execute("PRAGMA busy_timeout=60000")


def _is_locked(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return True
        cause = cause.__cause__
    return False


# The only placeholder that Optuna replaces in a storage URL.
_PLACEHOLDER = "{SCHEMA_VERSION}"


def sqlite_path(url: str) -> Path | None:
    """Return the path of a SQLite storage; None for other storages."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return None
    return Path(parsed.database) if parsed.drivername.startswith("sqlite") and parsed.database else None


def sqlite_url(path: Path) -> str:
    """Return the storage URL of a SQLite file, with % and ? escaped because they have a meaning in URLs."""
    return f"sqlite:///{str(path.absolute()).replace('%', '%25').replace('?', '%3F')}"


def refuse_unusable(url: str, values: Mapping[str, str] = {}) -> None:
    """Raise StudyError if SQLAlchemy cannot use a URL in `study.storage`, or if a SQLite URL names no usable file.

    `values` holds secrets to hide in the error message.
    """
    redacted = hide_secrets(url, values)
    try:
        parsed = make_url(url)
        parsed.get_dialect().import_dbapi()
    except ModuleNotFoundError as error:
        raise StudyError(
            f"study.storage: {redacted} needs the package '{error.name}', which is not installed; install it, or name "
            f"an installed driver, such as postgresql+psycopg2://"
        ) from error
    except (ArgumentError, ImportError, ValueError) as error:
        raise StudyError(
            f"study.storage: {redacted} cannot be used: {hide_secrets(first_line(error), values)}; give null, or the "
            f"URL of an Optuna storage, such as sqlite:///file.db"
        ) from error
    if not parsed.drivername.startswith("sqlite"):
        return
    if not parsed.database or parsed.database.startswith((":memory:", "file:")):
        raise StudyError(
            f"study.storage: '{redacted}' does not name a file; give a URL such as sqlite:///file.db, or null"
        )
    if not (folder := Path(parsed.database).parent).is_dir():
        raise StudyError(
            f"study.storage: the folder {folder} of '{redacted}' does not exist; create it, or give another file"
        )


def open_storage(url: str, where: str, hint: str = "") -> RDBStorage:
    """Open an Optuna storage; create the file of a SQLite storage if it does not exist.

    If the storage cannot be opened, raise a StudyError whose message begins with `where` and ends with `hint`.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = sqlite_path(url)
    # Escape all other braces, because Optuna takes them for placeholders even in the name of a folder.
    address = url.replace("{", "{{").replace("}", "}}").replace(f"{{{_PLACEHOLDER}}}", _PLACEHOLDER)
    options: dict[str, Any] = {}
    if path is not None and is_frozen(path):
        # SQLAlchemy uses a connection in several threads.
        options["creator"] = functools.partial(connect, path, check_same_thread=False)
    try:
        return RDBStorage(address, options, skip_compatibility_check=path is not None and _is_of_this_optuna(path))
    except Exception as error:
        # SQLAlchemy, its drivers and Optuna each raise their own types of exceptions.
        raise StudyError(hide_secrets(f"{where}: cannot open {url}: {first_line(error)}{hint}", {})) from error


def _is_of_this_optuna(path: Path) -> bool:
    """Return whether the installed Optuna made the file; if so, the caller skips Optuna's check, which takes 0.1 s."""
    if not path.is_file():
        return False
    with suppress(sqlite3.Error), closing(connect(path, timeout_seconds=5.0)) as connection:
        return connection.execute("SELECT library_version FROM version_info").fetchall() == [(optuna.__version__,)]
    return False
