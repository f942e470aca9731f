"""A file that a command or a call writes its result to."""

from pathlib import Path

from hpo.config.files import write_atomically
from hpo.errors import DataError


def refuse_bad_output(path: Path) -> None:
    """Raise DataError if the file cannot be written, before anything is computed for it."""
    if path.is_dir():
        raise DataError(f"output: '{path}' is a folder; give a file")
    if path.exists() and not path.is_file():
        # The atomic write would replace it by a regular file.
        raise DataError(f"output: '{path}' is a device or a pipe; give a file, or leave it out")
    if not path.parent.is_dir():
        raise DataError(f"output: there is no folder '{path.parent}'; make it, or give another file")


def write_output(path: Path, text: str) -> None:
    """Write the file whole or not at all; raises DataError if it cannot be written."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise DataError(f"output: {path}: {error.strerror}") from error
