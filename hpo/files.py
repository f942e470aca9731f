"""Writes, copies and removes files and folders, completely or not at all; lists folders without following links."""

import contextlib
import os
import shutil
import stat
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Entry:
    """A file, folder or link somewhere below a listed folder.

    Attributes:
        name: the path of the entry, relative to the listed folder.
        path: the path of the entry.
        kind: the kind of the entry.
        target: the target of a link, relative to the parent folder of the link. None = the target is outside of the
            listed folder, or the entry is no link.
    """

    name: str
    path: Path
    kind: Literal["folder", "file", "link"]
    target: str | None = None


def entries(folder: Path) -> Iterator[Entry]:
    """Yield all entries below a folder in the order of their names, parents first, without following links.

    A hard link counts as a file. Sockets, pipes and devices are omitted, because they hold nothing to copy. The entries
    of a folder that this user cannot list are omitted, too.
    """
    root = Path(os.path.realpath(folder))
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            yield Entry(name, path, "link", _target(path, root))
        elif path.is_dir():
            yield Entry(name, path, "folder")
        elif path.is_file():
            yield Entry(name, path, "file")


def links_out(folder: Path) -> list[Entry]:
    """Return all links below a folder whose targets are outside of that folder.

    If another process removes a file at the same time, the result is empty.
    """
    with contextlib.suppress(FileNotFoundError):
        return [entry for entry in entries(folder) if entry.kind == "link" and entry.target is None]
    return []


def size_of(path: Path) -> int:
    """Return the size in bytes of a file or link, or of all files below a folder; do not follow links.

    A folder that cannot be listed counts 0, and so does a file or folder that is removed during the call.
    """
    try:
        status = path.lstat()
        return sum(map(size_of, path.iterdir())) if stat.S_ISDIR(status.st_mode) else status.st_size
    except OSError:
        return 0


def file_stamp(path: Path) -> tuple[int, int] | None:
    """Return a file's modification time in nanoseconds, and its size in bytes; None if they cannot be read."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size
    return None


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that readers see either the complete old content or the complete new content."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        # O_EXCL, because another user may have placed a link under this predictable name.
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        # The error of a full disk does not name the file, so add its path.
        raise OSError(error.errno, error.strerror, str(path)) from error
    aside.replace(path)


def copy_tree(
    source: Path, target: Path, excluded: Collection[str] = (), copy: Callable[[Path, Path], Any] = shutil.copy2
) -> None:
    """Copy a folder. Links to targets inside the folder lead to the copied targets; other links are copied unchanged.

    Args:
        source: the folder.
        target: the path of the copy.
        excluded: name patterns. An entry directly below the folder is not copied if its name matches a pattern.
        copy: the function that copies a single file.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Copy under another name first, so that a killed process leaves no incomplete copy.
    aside = target.with_name(f".{target.name}-{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    try:
        for entry in entries(source):
            place = aside / entry.name
            if any(fnmatch(entry.name.partition("/")[0], pattern) for pattern in excluded):
                continue
            if entry.kind == "folder":
                place.mkdir(mode=0o700)
            elif entry.kind == "link":
                place.symlink_to(entry.target or entry.path.readlink())
            else:
                copy(entry.path, place)
        aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def remove_tree(folder: Path) -> None:
    """Rename a folder to a hidden name, and then delete the folder.

    If the process is killed, the folder under its old name is either complete or gone.
    """
    aside = folder.with_name(f".{folder.name}-{os.getpid()}")
    # A killed process with the same process id may have left such a folder.
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    shutil.rmtree(aside)


def _target(link: Path, root: Path) -> str | None:
    """Return the target of a link, relative to the link's parent folder; None if the target is outside of `root`."""
    target = Path(link.parent, link.readlink())
    # Do not resolve the last part of the target: if it is a link, it is copied as a link.
    resolved = Path(os.path.normpath(Path(os.path.realpath(target.parent), target.name)))
    return os.path.relpath(resolved, link.parent) if resolved.is_relative_to(root) else None
