"""A folder, or a single file, as bytes in pieces: the same for the same content, also by way of Ray's object store."""

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

PIECE_BYTES = 16 * 2**20
"""Large enough that a piece's own cost is small beside it, small enough that a few are held without notice."""


@dataclass(frozen=True)
class Package:
    """What was packed: its SHA-256, its bytes, and the file that holds them until the end of `packed`."""

    digest: str
    size: int
    _file: IO[bytes]

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes, at most PIECE_BYTES at once."""
        self._file.seek(0)
        while piece := self._file.read(PIECE_BYTES):
            yield piece


@contextlib.contextmanager
def packed(place: Path) -> Iterator[Package]:
    """Pack a folder, with all below it, or a file; StudyError where a link leads out of the folder."""
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for entry in entries(place) if place.is_dir() else (Entry(place.name, place, "file"),):
                _add(archive, entry, place.name)
        size = file.tell()
        file.seek(0)
        yield Package(hashlib.file_digest(file, "sha256").hexdigest(), size, file)


def unpack(pieces: Iterable[bytes], folder: Path) -> None:
    """Write what was packed as this folder, in one step; tarfile.TarError where it is not that, or leads out of it."""
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


def in_words(size: float) -> str:
    """Return a number of bytes for people."""
    unit, name = next(
        (unit, name) for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")) if size >= unit or name == "KiB"
    )
    return f"{size / unit:.3g} {name}"


@dataclass(frozen=True)
class Content:
    """A folder or file on its way to another machine: its SHA-256, and the references to its pieces, in order."""

    digest: str
    pieces: Sequence[Any]


class ObjectStore:
    """Puts folders and files, of at most `most_bytes` each, where other machines get them by references to bytes."""

    def __init__(self, put: Callable[[bytes], Any], get: Callable[[Any], bytes], most_bytes: int) -> None:
        self._put, self._get = put, get
        self._most_bytes = most_bytes

    def put(self, place: Path, what: str, hint: str = "") -> Content:
        """Return the content of a folder or file; DispatchError, which names it by `what`, where it is too large."""
        with packed(place) as package:
            if package.size > self._most_bytes:
                raise DispatchError(
                    f"dispatch.largest_message: {what} would be sent in {in_words(package.size)}, allowed are "
                    f"{in_words(self._most_bytes)}; raise it (in MiB){hint}"
                )
            return Content(package.digest, [self._put(piece) for piece in package.pieces()])

    def get(self, content: Content) -> Iterator[bytes]:
        """Yield the pieces, for `unpack`."""
        return map(self._get, content.pieces)


def _add(archive: tarfile.TarFile, entry: Entry, whole: str) -> None:
    """Add an entry without what differs between machines: owner and times."""
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
            f"{whole}/{entry.name}: is a link that leads out of the folder, to {entry.path.readlink()}, and would be "
            f"lost on another machine; keep the file itself there"
        )
    info.type, info.linkname = (tarfile.DIRTYPE, "") if entry.target is None else (tarfile.SYMTYPE, entry.target)
    archive.addfile(info)
