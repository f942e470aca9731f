"""A node's cache of what was sent to it: folders by the SHA-256 of their content, shared by all workers of a user.

What is shared is read-only. A search that may write beside it has a folder of its own with the same content.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Literal

import psutil

from hpo.engine.dispatch.away.parcel import unpack
from hpo.errors import MachineError
from hpo.tree import copy_tree, entries

MOST_BYTES = 20 * 2**30
"""Above it those that were used longest ago are deleted. Large beside usual data, small beside usual disks."""
_OF = ".of-"


class NodeCache:
    """Keeps folders that were sent, for as long as they fit; what a worker uses is not deleted.

    Args:
        folder: where; None = a folder of this user's, readable for nobody else, among the temporary ones.
        most_bytes: all of it together.
    """

    def __init__(self, folder: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder or Path(tempfile.gettempdir()) / f"hpo-content-{os.getuid()}"
        self._most_bytes = most_bytes
        self._in_use: dict[str, IO[bytes]] = {}
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = self.folder.lstat()
        if self.folder.is_symlink() or known.st_uid != os.getuid() or known.st_mode & 0o077:
            raise MachineError(f"{self.folder}: must be a folder that only this user can read; remove it")
        self._remove_abandoned()

    def get(self, digest: str, fetch: Callable[[], Iterable[bytes]]) -> Path:
        """Return the read-only folder with this content; if it is not there, unpack it from what `fetch` returns."""
        folder = self.folder / digest
        if digest not in self._in_use:
            self._in_use[digest] = self._lock(digest, "using", fcntl.LOCK_SH)
            with self._lock(digest, "fetching", fcntl.LOCK_EX):
                if not folder.is_dir():
                    self._make_room()
                    with self.scratch() as scratch:
                        unpack(fetch(), scratch / "content")
                        _make_read_only(scratch / "content")
                        (scratch / "content").rename(folder)
        os.utime(folder)
        return folder

    def own(self, digest: str, owner: str, fetch: Callable[[], Iterable[bytes]]) -> Path:
        """Return the folder with this content that is the owner's alone, for all of its workers on this node.

        It is deleted once none of them is left, when the next worker of any search begins here.
        """
        shared, name = self.get(digest, fetch), f"{digest}{_OF}{owner}"
        folder = self.folder / name
        if name not in self._in_use:
            self._in_use[name] = self._lock(name, "using", fcntl.LOCK_SH)
            with self._lock(digest, "fetching", fcntl.LOCK_EX):
                if not folder.is_dir():
                    with self.scratch() as scratch:
                        copy_tree(shared, scratch / "own", copy=_link)
                        (scratch / "own").rename(folder)
        return folder

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give an empty folder until the end of the block."""
        with tempfile.TemporaryDirectory(prefix=f".{os.getpid()}-", dir=self.folder) as name:
            yield Path(name)

    def close(self) -> None:
        """Say that nothing is used any more."""
        while self._in_use:
            self._in_use.popitem()[1].close()

    def _remove_abandoned(self) -> None:
        """Delete what killed workers left half done, and the folders of searches that have ended."""
        for path in self.folder.glob(".*-*"):
            process = path.name[1:].partition("-")[0]
            if process.isdigit() and not psutil.pid_exists(int(process)):
                shutil.rmtree(path, ignore_errors=True)
        for lock in self.folder.glob(f"*{_OF}*.using"):
            with contextlib.suppress(BlockingIOError), self._lock(lock.stem, "using", fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(self.folder / lock.stem, ignore_errors=True)
                lock.unlink()

    def _make_room(self) -> None:
        """Delete what was used longest ago and is used by nobody, until the rest fits."""
        # In the order of names what is shared comes before the folders that have it too.
        folders = sorted(path for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        counted: set[int] = set()
        sizes = {path: _new_bytes(path, counted) for path in folders}
        total = sum(sizes.values())
        # The folder of a search is in use, or goes with its last worker.
        shared = [path for path in folders if _OF not in path.name]
        for path in sorted(shared, key=lambda path: path.stat().st_mtime):
            if total <= self._most_bytes:
                return
            with contextlib.suppress(BlockingIOError), self._lock(path.name, "using", fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(path, ignore_errors=True)
                total -= sizes[path]

    def _lock(self, digest: str, what: Literal["fetching", "using"], kind: int) -> IO[bytes]:
        """Return the open file of a lock; the kernel releases it when that is closed, however the process ends.

        Whoever uses a folder shares the lock with others; whoever deletes it must have it alone.
        """
        path = self.folder / f"{digest}.{what}"
        while True:
            file = path.open("ab")
            try:
                fcntl.flock(file, kind)
            except BlockingIOError:
                file.close()
                raise
            # While this process waited, the lock may have been deleted with its folder.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
            file.close()


def _make_read_only(folder: Path) -> None:
    for entry in entries(folder):
        if entry.kind == "file":
            entry.path.chmod(entry.path.stat().st_mode & 0o500)


def _link(path: Path, own: Path) -> None:
    """Give a file a second name; a file that could be written into by that, as root can, is copied."""
    if not os.access(path, os.W_OK):
        with contextlib.suppress(OSError):
            own.hardlink_to(path)
            return
    shutil.copyfile(path, own)
    own.chmod(path.stat().st_mode | 0o200)


def _new_bytes(folder: Path, counted: set[int]) -> int:
    """Return the size of the files in a folder that are not counted yet under another name."""
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            # A search that runs may delete one meanwhile.
            with contextlib.suppress(FileNotFoundError):
                status = Path(where, name).lstat()
                size += status.st_size if status.st_ino not in counted else 0
                counted.add(status.st_ino)
    return size
