"""The machine: its memory, its processes, and its faults, such as a full disk or too many open files."""

import errno
import getpass
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hpo.errors import OUTPUT, MachineError, text_of

GIB = 2**30
# Where a container reads its own limit and use (cgroup v2).
_CGROUP = Path("/sys/fs/cgroup")
# Faults that no point of a space causes: with one of them a trial has not failed, it was not tried.
_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE)
# Errors of safetensors and tokenizers are not Python's; their texts end in the number.
_IN_TEXTS = re.compile(rf"os error ({'|'.join(str(number) for number in _FAULTS)})\b")
_IN_SQLITE = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
)


def machine_fault(error: BaseException, folder: Path | None = None) -> str | None:
    """Return one line with the path and its free bytes where the machine is at fault; None for other errors.

    The causes of the error are examined, too. A permission error on a file in `folder`, the study's, is such a fault.
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
    """Raise MachineError instead of an error inside, where the machine is at fault with this file or folder.

    `what` is the start of the line: `record: cannot be written`.
    """
    try:
        yield
    except Exception as error:
        # The machine's faults come as errors of many libraries; other errors pass unchanged.
        if isinstance(error, MachineError):
            raise
        fault = machine_fault(error, path)
        for cause in _chain(error):
            # The lowest byte is the kind; the others are details.
            if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF in _IN_SQLITE:
                fault = fault or f"{cause}: {path}, {_free(path)}"
        if fault is None and isinstance(error, PermissionError):
            fault = _line(error.errno or errno.EACCES, error.filename or path)
        if fault is None:
            raise
        raise MachineError(f"{what}: {fault}") from error


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _line(number: int, path: object) -> str:
    """Return the reason, the path, and what is left: the limit of open files, or free bytes."""
    if path == OUTPUT:
        return f"{OUTPUT}: {os.strerror(number)}"
    shown = f"{_text(path)}, " if _text(path) else ""
    if number in (errno.EMFILE, errno.ENFILE):
        import resource  # Missing on Windows, where this module must still be importable.

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"{os.strerror(number)}: {shown}this process may have {limit} files open (`ulimit -n`)"
    return f"{os.strerror(number)}: {shown}{_free(Path(_text(path) or '.'))}"


def _free(path: Path) -> str:
    there = path.absolute()
    try:
        while not there.exists():
            there = there.parent
        return f"{shutil.disk_usage(there).free:,} bytes free"
    except OSError as error:
        return f"bytes free unknown ({error.strerror})"


def _text(path: object) -> str:
    """Return a path as text; a user's own OSError may hold anything instead."""
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""


def free_and_total() -> tuple[int, int]:
    """Return bytes: those available without swapping, and all."""
    import psutil  # 30 ms to load, and rarely needed.

    machine = psutil.virtual_memory()
    limit, used = _of_container("memory.max").strip(), _of_container("memory.current").strip()
    if not (limit.isdigit() and used.isdigit()) or int(limit) >= machine.total:
        return machine.available, machine.total
    # Cached files are released when memory is needed.
    cached = re.search(r"^inactive_file (\d+)", _of_container("memory.stat"), re.MULTILINE)
    return min(machine.available, int(limit) - int(used) + (int(cached[1]) if cached else 0)), int(limit)


def resident_bytes() -> int:
    """Return the resident bytes of this process."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def figures(held_bytes: int) -> str:
    """Return what a process resident_bytes, and what was free, as text."""
    free, total = free_and_total()
    return f"it held {held_bytes / GIB:.1f} GiB, {free / GIB:.1f} of {total / GIB:.1f} GiB were free"


def _of_container(name: str) -> str:
    try:
        return (_CGROUP / name).read_text()
    except OSError:
        return ""


def user_name() -> str:
    """Return the user's name; empty where there is none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


@dataclass(frozen=True)
class Host:
    """The process that trains a task; of several that train together the first."""

    host: str  # the name of its machine
    process: int  # its number there
    gpus: Sequence[str] = ()  # the numbers of the GPUs that it was given there, as far as that is known

    @classmethod
    def here(cls) -> Self:
        """Return this process."""
        return cls(os.uname().nodename, os.getpid())

    def __str__(self) -> str:
        """As people read it: `process 30085 on ada, GPU 0`."""
        gpus = f", GPU {', '.join(self.gpus)}" if self.gpus else ""
        return f"process {self.process} on {self.host}{gpus}"
