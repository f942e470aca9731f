"""Opens an Optuna storage by its address; a SQLite file of unknown origin cannot run anything without end."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import RDBStorage
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from hpo.config.sealing import hide_secrets
from hpo.engine.record.guard import is_frozen
from hpo.errors import StudyError, first_line

# Of one value: a database can expand a few bytes, which is refused before it fills the memory. The largest of ours is
# the space of a table, in a note.
_MOST_BYTES = 256 * 2**20
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
    """Raise StudyError for a `study.storage` that SQLAlchemy cannot use, or with no file where one can be.

    Nothing is opened and nobody is asked. `values` are those of secrets in it, which the message hides.
    """
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


class BoundConnection(sqlite3.Connection):
    """A connection whose values have a limited size."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)


class ReadOnlyConnection(BoundConnection):
    """A connection to a file that cannot be written, or in a folder where no log can be created."""

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(f"{Path(path).absolute().as_uri()}?immutable=1", **options, uri=True)


def open_storage(url: str, where: str, hint: str = "") -> RDBStorage:
    """Open an Optuna storage; a file of SQLite that does not exist is created.

    Args:
        url: its address, such as `sqlite:///file.db`.
        where: the source of the address, at the start of the error's line: `--optuna`.
        hint: what to do, at the end of the error's line.

    Raises:
        StudyError: it cannot be opened, or has content that computes when it is read.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = sqlite_path(url)
    try:
        if path is not None and path.is_file():
            _refuse_programs(path)
        # Optuna takes braces for placeholders, also in a folder's name.
        address = url.replace("{", "{{").replace("}", "}}").replace(f"{{{_MARK}}}", _MARK)
        if path is None:
            return RDBStorage(address)
        connection = ReadOnlyConnection if is_frozen(path) else BoundConnection
        return RDBStorage(address, {"connect_args": {"factory": connection}})
    except StudyError:
        raise
    except Exception as error:
        # SQLAlchemy, its drivers and Optuna each raise their own kinds; all mean that it cannot be opened.
        raise StudyError(hide_secrets(f"{where}: cannot open {url}: {first_line(error)}{hint}", {})) from error


def _refuse_programs(path: Path) -> None:
    """Raise StudyError for a database with more than plain tables, which Optuna's storages do not have.

    Views and computed columns run when read, triggers when something is written, and each may never end.
    """
    mode = "immutable=1" if is_frozen(path) else "mode=ro"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)
    try:
        rows = connection.execute("SELECT type, name, rootpage FROM sqlite_master WHERE type != 'index'").fetchall()
        computed = connection.execute(
            "SELECT t.name, c.name FROM sqlite_master t, pragma_table_xinfo(t.name) c WHERE t.type='table' AND c.hidden"
        ).fetchone()
    except sqlite3.DatabaseError:
        return  # The reader reports what is wrong with it.
    finally:
        connection.close()
    for kind, name, page in rows:
        if kind != "table" or not page:
            what = kind if kind != "table" else "virtual table"
            raise StudyError(f"{path}: holds a {what} '{name}', which Optuna's storages do not have; give another file")
    if computed is not None:
        raise StudyError(
            f"{path}: computes the column '{'.'.join(computed)}', which Optuna's storages never do; give another file"
        )
