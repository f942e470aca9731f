"""A study's lock is a file in the study's folder.

The process that runs the study locks this file, and writes the process id into the file.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from hpo.errors import StudyError

# Try several times, because a reader that checks the lock holds it for microseconds.
_TRIES, _SECONDS_BETWEEN_TRIES = 5, 0.02


@dataclass(frozen=True)
class Holder:
    """The process that runs a study.

    Attributes:
        process: the process id; None if the lock file has no id.
        host: the machine's name; empty if the lock file has no name.
        since: when the process took the lock, in seconds since the epoch.
    """

    process: int | None
    host: str
    since: float

    @property
    def is_here(self) -> bool:
        """Whether the process runs on this machine."""
        return self.host == os.uname().nodename

    @property
    def is_this(self) -> bool:
        """Whether the holder is the current process."""
        return self.is_here and self.process == os.getpid()

    def __str__(self) -> str:
        """Return the process and its machine as text, such as `process 30085 on ada` or `an unknown process`."""
        return f"process {self.process} on {self.host}" if self.process else "an unknown process"


class Lock:
    """A lock on a file. `taken` creates the file; the system releases the lock when the process ends."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def taken(self) -> Iterator[Holder | None]:
        """Take the lock until the `with` block ends, and yield None.

        If another process has the lock, do not take the lock, and yield the other process.

        Raises:
            StudyError: the file cannot be opened.
        """
        try:
            # Without O_NOFOLLOW, a link in place of the file would make us truncate the link's target.
            lock = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+")
        except OSError as error:
            advice = "check the file and its permissions"
            if isinstance(error, PermissionError) and self.path.parent.stat().st_uid != os.geteuid():
                advice = f"the folder belongs to {_owner(self.path.parent)}: copy it (`cp -r`), and use the copy"
            raise StudyError(f"{self.path}: cannot be opened: {error.strerror or error}; {advice}") from error
        with lock as file:
            if not _try_lock(file, fcntl.LOCK_EX, _TRIES):
                yield _read_holder(file)
                return
            file.truncate(0)
            file.write(f"process {os.getpid()} on {os.uname().nodename}")
            file.flush()
            try:
                yield None
            finally:
                # Empty the file, so that readers do not mistake this process for the next holder.
                file.truncate(0)

    def holder(self) -> Holder | None:
        """Return the process that holds the lock; None if the lock is free, or if the file cannot be opened.

        Do not wait or change anything.
        """
        try:
            lock = os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "r")
        except (OSError, ValueError):  # ValueError: no file can have such a name
            return None
        with lock as file:
            # Closing the file releases this shared lock.
            return None if _try_lock(file, fcntl.LOCK_SH) else _read_holder(file)


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:  # The user has no name on this machine.
        return f"user {path.stat().st_uid}"


def _try_lock(file: TextIO, kind: int, tries: int = 1) -> bool:
    """Try to lock an open file; return whether this succeeded."""
    for tries_left in reversed(range(tries)):
        with suppress(BlockingIOError):
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return True
        time.sleep(_SECONDS_BETWEEN_TRIES if tries_left else 0.0)
    return False


def _read_holder(file: TextIO) -> Holder:
    file.seek(0)
    words = file.read().split()
    is_known = len(words) == 4 and words[1].isdecimal()
    return Holder(int(words[1]) if is_known else None, words[3] if is_known else "", os.fstat(file.fileno()).st_mtime)
