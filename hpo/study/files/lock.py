"""The lock of a study: a file in its folder, which the process that runs it holds, and names itself in."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from hpo.errors import StudyError

# Somebody who looks who holds the lock has it for microseconds.
_TRIES, _SECONDS_BETWEEN_TRIES = 5, 0.02


@dataclass(frozen=True)
class Holder:
    """The process that runs a study: its number, on which machine, and since when, in seconds since the epoch."""

    process: int | None
    host: str
    since: float

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine."""
        return self.host == os.uname().nodename

    @property
    def is_this(self) -> bool:
        """Whether it is this process."""
        return self.is_here and self.process == os.getpid()

    def __str__(self) -> str:
        """As people read it: `process 30085 on ada`."""
        return f"process {self.process} on {self.host}" if self.process else "an unknown process"


class Lock:
    """The lock in a file, which is made when it is taken first; it ends with the process that holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def taken(self) -> Iterator[Holder | None]:
        """Take the lock until the end of the block, and yield None; or yield who holds it. StudyError for no file."""
        try:
            # Without O_NOFOLLOW, the target of a link in its place would be emptied.
            lock = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+")
        except OSError as error:
            raise StudyError(
                f"{self.path}: cannot be opened: {error.strerror or error}; check what is there"
            ) from error
        with lock as file:
            if not _is_locked(file, fcntl.LOCK_EX, _TRIES):
                yield _holder(file)
                return
            file.truncate(0)
            file.write(f"process {os.getpid()} on {os.uname().nodename}")
            file.flush()
            try:
                yield None
            finally:
                # A reader of the file must not take a process that has ended for one that runs.
                file.truncate(0)

    def holder(self) -> Holder | None:
        """Return who holds it, None where nobody does; it waits for nobody and changes nothing."""
        try:
            lock = os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "r")
        except (OSError, ValueError):  # ValueError: no file can have such a name
            return None
        with lock as file:
            # Released again when the file is closed.
            return None if _is_locked(file, fcntl.LOCK_SH) else _holder(file)


def _is_locked(file: TextIO, kind: int, tries: int = 1) -> bool:
    """Lock an open file, and return whether that could be done."""
    for left in reversed(range(tries)):
        with suppress(BlockingIOError):
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return True
        time.sleep(_SECONDS_BETWEEN_TRIES if left else 0.0)
    return False


def _holder(file: TextIO) -> Holder:
    file.seek(0)
    words = file.read().split()
    is_known = len(words) == 4 and words[1].isdecimal()
    return Holder(int(words[1]) if is_known else None, words[3] if is_known else "", os.fstat(file.fileno()).st_mtime)
