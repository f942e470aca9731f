"""Writes files atomically."""

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader gets the old text or the new one, never a part."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # A new file: under a predictable name, someone may have placed a link.
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        # The error of a full disk does not name the file.
        raise OSError(error.errno, error.strerror, str(path)) from error
    aside.replace(path)
