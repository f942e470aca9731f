"""Opens an Optuna storage by its address."""

import functools
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import RDBStorage
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from hpo.config.sealing import hide_secrets
from hpo.errors import StudyError, first_line
from hpo.trials.record.own_file import connect, is_frozen

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
