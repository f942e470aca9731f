"""Packs a folder or a file into pieces of bytes, and sends these through an object store such as Ray's.

Folders with equal content give equal bytes.
"""

import contextlib
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hpo.errors import DispatchError, StudyError
from hpo.files import Entry, entries
from hpo.formatting import format_size

PIECE_BYTES = 16 * 2**20
"""The size of a package's pieces in bytes. At this size, the overhead per piece is small, and several fit in memory."""


@dataclass(frozen=True)
class Package:
    """A folder or a file, packed into a temporary file.

    Attributes:
        digest: the SHA-256 of the temporary file.
        size: the size of the temporary file in bytes.
    """

    digest: str
    size: int
    _file: IO[bytes]

    def pieces(self) -> Iterator[bytes]:
        """Yield the package in pieces of at most PIECE_BYTES bytes."""
        self._file.seek(0)
        while piece := self._file.read(PIECE_BYTES):
            yield piece


@contextlib.contextmanager
def packed(place: Path) -> Iterator[Package]:
    """Pack a folder with its subfolders, or a file; delete the package at the end of the block.

    Raises:
        StudyError: a link leads out of the folder.
    """
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for entry in entries(place) if place.is_dir() else (Entry(place.name, place, "file"),):
                _add(archive, entry, place.name)
        size = file.tell()
        file.seek(0)
        yield Package(hashlib.file_digest(file, "sha256").hexdigest(), size, file)


def unpack(pieces: Iterable[bytes], folder: Path) -> None:
    """Unpack the pieces into a folder. An existing folder is replaced only after everything is unpacked.

    Raises:
        tarfile.TarError: the pieces are not a package, or an entry leads out of the folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = Path(tempfile.mkdtemp(prefix=f".{os.getpid()}-", dir=folder.parent))
    try:
        with tempfile.TemporaryFile(dir=aside) as file:
            file.writelines(pieces)
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                archive.extractall(aside, filter="data")
        old = aside.with_name(f"{aside.name}-old")
        with contextlib.suppress(FileNotFoundError):
            folder.rename(old)
        aside.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@dataclass(frozen=True)
class Content:
    """A package that is stored in an object store, in pieces.

    Attributes:
        digest: the SHA-256 of the package.
        pieces: the references to the pieces, in order.
    """

    digest: str
    pieces: Sequence[Any]


class ObjectStore:
    """Puts folders and files into an object store. Other machines read them from the object store by reference.

    Args:
        put: stores bytes and returns a reference to them.
        get: returns the bytes for a reference.
        most_bytes: the largest size of a packed folder or file.
    """

    def __init__(self, put: Callable[[bytes], Any], get: Callable[[Any], bytes], most_bytes: int) -> None:
        self._put, self._get = put, get
        self._most_bytes = most_bytes

    def put(self, place: Path, what: str, hint: str = "") -> Content:
        """Store a folder or file. `what` is its name in error messages, and `hint` is appended to the message.

        Raises:
            DispatchError: the package is too large.
            StudyError: a link leads out of the folder.
        """
        with packed(place) as package:
            if package.size > self._most_bytes:
                raise DispatchError(
                    f"dispatch.largest_message: {what} must be at most {format_size(self._most_bytes)} to be sent, "
                    f"given {format_size(package.size)}; raise dispatch.largest_message (in MiB){hint}"
                )
            return Content(package.digest, [self._put(piece) for piece in package.pieces()])

    def get(self, content: Content) -> Iterator[bytes]:
        """Yield the pieces of a stored folder or file, for `unpack`."""
        return map(self._get, content.pieces)


def _add(archive: tarfile.TarFile, entry: Entry, whole: str) -> None:
    """Add an entry to an archive. Leave out the entry's owner and times, because these differ between machines."""
    info = tarfile.TarInfo(entry.name)
    info.mode = 0o700
    if entry.kind == "file":
        with entry.path.open("rb") as content:
            status = os.fstat(content.fileno())
            info.size, info.mode = status.st_size, 0o700 if status.st_mode & 0o100 else 0o600
            archive.addfile(info, content)
        return
    if entry.kind == "link" and entry.target is None:
        raise StudyError(
            f"{whole}/{entry.name}: must not be a link out of the folder, given a link to {entry.path.readlink()}; "
            f"other machines lack the target, so store the target itself in the folder"
        )
    info.type, info.linkname = (tarfile.DIRTYPE, "") if entry.target is None else (tarfile.SYMTYPE, entry.target)
    archive.addfile(info)
