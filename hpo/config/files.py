"""Writes files so that nobody ever reads half of one."""

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader finds the old text or the new one, never half of it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Anew, for a link may lie in wait under any name that can be told beforehand.
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        # A disk that is full does not say of which file.
        raise OSError(error.errno, error.strerror, str(path)) from error
    aside.replace(path)
