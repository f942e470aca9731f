"""Files and folders: written, copied, removed, whole or not at all; and what lies below a folder, where links stay."""

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
    """One of them; of a link, `target` is where it leads, relative to where it lies; None where that is outside of the
    folder.
    """

    name: str
    path: Path
    kind: Literal["folder", "file", "link"]
    target: str | None = None


def entries(folder: Path) -> Iterator[Entry]:
    """Yield what lies below a folder, parents first, in the order of names; links are not followed.

    A hard link is a file of its own. Sockets, pipes and devices, which hold nothing to be copied, are omitted.
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
    """Return the links below a folder that lead out of it."""
    # What is written to meanwhile is looked at again.
    with contextlib.suppress(FileNotFoundError):
        return [entry for entry in entries(folder) if entry.kind == "link" and entry.target is None]
    return []


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


def copy_tree(
    source: Path, target: Path, left: Collection[str] = (), copy: Callable[[Path, Path], Any] = shutil.copy2
) -> None:
    """Copy a folder, without what has one of the patterns in `left` directly below it; `copy` copies a file.

    Links within it lead to the copy, and those out of it stay as they are.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Under another name first: a process that is killed leaves no part of a copy.
    aside = target.with_name(f".{target.name}-{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    for entry in entries(source):
        place = aside / entry.name
        if any(fnmatch(entry.name.partition("/")[0], pattern) for pattern in left):
            continue
        if entry.kind == "folder":
            place.mkdir(mode=0o700)
        elif entry.kind == "link":
            place.symlink_to(entry.target or entry.path.readlink())
        else:
            copy(entry.path, place)
    aside.rename(target)


def remove_tree(folder: Path) -> None:
    """Remove a folder in one step: a process that is killed leaves all of it, or a rest under a hidden name."""
    aside = folder.with_name(f".{folder.name}-{os.getpid()}")
    # Of a process that was killed, and had the same number.
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    shutil.rmtree(aside)


def _target(link: Path, root: Path) -> str | None:
    """Return where a link below the root leads, as a relative path that never leaves the root on its way."""
    led = Path(link.parent, link.readlink())
    # The last step may be a link too, which stays one and is judged by itself.
    place = Path(os.path.normpath(Path(os.path.realpath(led.parent), led.name)))
    return os.path.relpath(place, link.parent) if place.is_relative_to(root) else None
