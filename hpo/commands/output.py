"""A file that a command writes where its user says: refused before anything is computed, and written whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpo.errors import DataError
from hpo.files import write_atomically


def refuse_bad_picture(path: Path) -> None:
    """Raise DataError if the file cannot be written, or is of no kind that a picture can be."""
    if path.suffix.lower() not in (".png", ".html"):
        raise DataError(f"output: must end in .png or .html, given '{path}'")
    refuse_bad_output(path)


def refuse_bad_output(path: Path) -> None:
    """Raise DataError if the file cannot be written, before anything is computed for it."""
    if path.is_dir():
        raise DataError(f"output: '{path}' is a folder; give a file")
    if path.exists() and not path.is_file():
        # The atomic write would replace it by a regular file.
        raise DataError(f"output: '{path}' is a device or a pipe; give a file, or leave it out")
    if not path.parent.is_dir():
        raise DataError(f"output: there is no folder '{path.parent}'; make it, or give another file")


def write_output(path: Path, content: str | bytes) -> None:
    """Write the file whole or not at all; DataError if it cannot be written."""
    with writing(path):
        write_atomically(path, content)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise DataError where a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise DataError(f"output: {path}: {error.strerror}") from error
