"""Opens an Optuna storage by its address."""

from pathlib import Path

import optuna
from optuna.storages import RDBStorage
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from hpo.errors import StudyError, first_line
from hpo.sealing import hidden


def open_storage(url: str, where: str, hint: str = "") -> RDBStorage:
    """Open an Optuna storage; a file of SQLite that does not exist is created.

    Args:
        url: its address, such as `sqlite:///file.db`.
        where: the address comes from, as the start of the error's line: `--optuna`.
        hint: what to do, as the end of the error's line.

    Raises:
        StudyError: when it cannot be opened.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        return RDBStorage(url)
    except Exception as error:
        # SQLAlchemy, its drivers and Optuna each raise their own kinds; all mean that it cannot be opened.
        raise StudyError(hidden(f"{where}: cannot open {url}: {first_line(error)}{hint}", {})) from error


def sqlite_path(url: str) -> Path | None:
    """Return the file of a SQLite storage; None for every other."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return None
    return Path(parsed.database) if parsed.drivername.startswith("sqlite") and parsed.database else None


def sqlite_url(path: Path) -> str:
    """Return the address of a SQLite file as a storage."""
    return f"sqlite:///{path.absolute()}"
