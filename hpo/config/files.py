"""Writes files atomically."""

import os
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader gets the old content or the new one, never a part."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # A new file: under a predictable name, someone may have placed a link.
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        # The error of a full disk does not name the file.
        raise OSError(error.errno, error.strerror, str(path)) from error
    aside.replace(path)
