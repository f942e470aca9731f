"""Describes the machine: memory, processes, packages, environment variables, and errors such as a full disk."""

import errno
import getpass
import importlib.metadata
import os
import platform
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hpo.errors import OUTPUT, MachineError, text_of

GIB = 2**30
PYTHON = ".".join(platform.python_version_tuple()[:2])
"""The Python version of this process, such as `3.11`."""
# The folder with the memory limit and memory use of a container (cgroup v2).
_CGROUP = Path("/sys/fs/cgroup")
# Errors that do not depend on the point of a trial. They do not count as a failure of the point.
_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE)
# Errors of safetensors and tokenizers are not of type OSError, but their texts contain the error number.
_IN_TEXTS = re.compile(rf"os error ({'|'.join(str(number) for number in _FAULTS)})\b")
_IN_SQLITE = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
)


def machine_fault(error: BaseException, folder: Path | None = None) -> str | None:
    """Return a line that describes an error of the machine, such as a full disk; None for other errors.

    The line has the reason and, if known, the path. If `error` was raised during or because of another exception, the
    function examines that exception, too. A permission error counts only if it concerns a file in `folder`, the study's
    folder.
    """
    for cause in _chain(error):
        if isinstance(cause, OSError):
            if cause.errno in _FAULTS or (
                isinstance(cause, PermissionError)
                and folder is not None
                and Path(_text(cause.filename)).absolute().is_relative_to(folder.absolute())
            ):
                return _line(cause.errno or errno.EIO, cause.filename or folder)
        elif match := _IN_TEXTS.search(text_of(cause)):
            return _line(int(match[1]), folder)
    return None


@contextmanager
def machine_faults(what: str, path: Path) -> Iterator[None]:
    """Inside the context, turn errors that the machine causes into MachineError; `path` is the file or folder in use.

    `what` is the beginning of the error's message, for example `record: cannot be written`.
    """
    try:
        yield
    except Exception as error:
        # Many libraries raise their own types for these errors; other errors pass unchanged.
        if isinstance(error, MachineError):
            raise
        fault = machine_fault(error, path)
        for cause in _chain(error):
            # The lowest byte of SQLite's error code is the kind of error; the other bytes are details.
            if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF in _IN_SQLITE:
                fault = fault or f"{cause}: {path}, {_free(path)}"
        if fault is None and isinstance(error, PermissionError):
            fault = _line(error.errno or errno.EACCES, error.filename or path)
        if fault is None:
            raise
        raise MachineError(f"{what}: {fault}") from error


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes.

    Yield each error only once. Otherwise, the chain would never end after `raise error from error`, which makes an
    error its own cause.
    """
    seen = list[BaseException]()
    cause: BaseException | None = error
    while cause is not None and not any(cause is each for each in seen):
        yield cause
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__


def _line(number: int, path: object) -> str:
    """Return the text of an error number, with the path and the free bytes of the path's disk.

    If too many files are open, the text has the limit of open files in place of the free bytes.
    """
    if path == OUTPUT:
        return f"{OUTPUT}: {os.strerror(number)}"
    place = f"{_text(path)}, " if _text(path) else ""
    if number in (errno.EMFILE, errno.ENFILE):
        import resource  # Imported here, because Windows lacks it, and this module must be importable there.

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"{os.strerror(number)}: {place}this process can open at most {limit} files (`ulimit -n`)"
    return f"{os.strerror(number)}: {place}{_free(Path(_text(path) or '.'))}"


def _free(path: Path) -> str:
    existing = path.absolute()
    try:
        while not existing.exists():
            existing = existing.parent
        return f"{shutil.disk_usage(existing).free:,} bytes free"
    except OSError as error:
        return f"bytes free unknown ({error.strerror})"


def _text(path: object) -> str:
    """Return a path as text; '' for any other object, as user code can raise an OSError with any object as path."""
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""


def free_and_total() -> tuple[int, int]:
    """Return the bytes of available memory and of total memory, for this machine or container.

    Available memory is the memory that processes can get without swapping.
    """
    import psutil  # 30 ms to load, and rarely needed.

    machine = psutil.virtual_memory()
    limit, used = _of_container("memory.max").strip(), _of_container("memory.current").strip()
    if not (limit.isdigit() and used.isdigit()) or int(limit) >= machine.total:
        return machine.available, machine.total
    # The system releases cached files when memory is needed.
    cached = re.search(r"^inactive_file (\d+)", _of_container("memory.stat"), re.MULTILINE)
    return min(machine.available, int(limit) - int(used) + (int(cached[1]) if cached else 0)), int(limit)


def describe_memory() -> str:
    """Return a text with the memory that this process uses, and the memory that is available."""
    import psutil

    held, (free, total) = psutil.Process().memory_info().rss, free_and_total()
    return f"this process held {held / GIB:.1f} GiB, and {free / GIB:.1f} of {total / GIB:.1f} GiB were free"


def _of_container(name: str) -> str:
    try:
        return (_CGROUP / name).read_text()
    except OSError:
        return ""


def version_of(package: str) -> str | None:
    """Return the version of a package; None if the package is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def user_name() -> str:
    """Return the name of the current user; an empty text if the user has no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


@contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Within the block, set these environment variables, and unset those with the value None."""
    before = {name: os.environ.get(name) for name in variables}
    set_variables(variables)
    try:
        yield
    finally:
        set_variables(before)


def set_variables(variables: Mapping[str, str | None]) -> None:
    """Set these environment variables, and unset those with the value None."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@dataclass(frozen=True)
class Host:
    """The process that trains a task; if several processes train together, the first of these processes.

    Attributes:
        host: the name of the machine.
        process: the process id on that machine.
        gpus: the numbers of the GPUs that the process uses; empty = no GPUs, or the GPUs are unknown.
    """

    host: str
    process: int
    gpus: Sequence[str] = ()

    @classmethod
    def here(cls) -> Self:
        """Return the host of the current process."""
        return cls(os.uname().nodename, os.getpid())

    def __str__(self) -> str:
        """Return the process id, the machine and any GPUs as text, such as `process 30085 on ada, GPU 0`."""
        gpus = f", GPU {', '.join(self.gpus)}" if self.gpus else ""
        return f"process {self.process} on {self.host}{gpus}"
