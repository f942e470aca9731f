"""Writes, copies and removes files and folders, completely or not at all; lists a folder without following links."""

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Entry:
    """A file, folder or link below a folder.

    Attributes:
        name: its path relative to the folder.
        path: its path.
        kind: what it is.
        target: the target of a link, relative to the link's parent; None if that is outside of the folder.
    """

    name: str
    path: Path
    kind: Literal["folder", "file", "link"]
    target: str | None = None


def entries(folder: Path) -> Iterator[Entry]:
    """Yield the entries below a folder, parents first, in the order of names, without following links.

    A hard link counts as a file. Sockets, pipes and devices are omitted, because they hold nothing to copy.
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
    """Return the links below a folder that lead out of it; none if another process removes a file meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return [entry for entry in entries(folder) if entry.kind == "link" and entry.target is None]
    return []


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader gets the old content or the new content, never a part of it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # O_EXCL, because another user may have placed a link under this predictable name.
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        # The error of a full disk does not name the file, so add its path.
        raise OSError(error.errno, error.strerror, str(path)) from error
    aside.replace(path)


def copy_tree(
    source: Path, target: Path, excluded: Collection[str] = (), copy: Callable[[Path, Path], Any] = shutil.copy2
) -> None:
    """Copy a folder; links within it lead to the copy, and links out of it stay as they are.

    Args:
        source: the folder.
        target: the path of the copy.
        excluded: patterns of names directly below the folder that are not copied.
        copy: copies a file.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Copy under another name first, so that a killed process leaves no incomplete copy.
    aside = target.with_name(f".{target.name}-{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
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


def remove_tree(folder: Path) -> None:
    """Remove a folder in one step; a killed process leaves all of it, or a rest under a hidden name."""
    aside = folder.with_name(f".{folder.name}-{os.getpid()}")
    # A killed process with the same number may have left this one.
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    shutil.rmtree(aside)


def _target(link: Path, root: Path) -> str | None:
    """Return the target of a link, relative to the link's parent; None if it is outside of the root."""
    target = Path(link.parent, link.readlink())
    # Do not resolve the last part: if it is a link, it is an entry of its own.
    resolved = Path(os.path.normpath(Path(os.path.realpath(target.parent), target.name)))
    return os.path.relpath(resolved, link.parent) if resolved.is_relative_to(root) else None
