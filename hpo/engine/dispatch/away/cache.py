"""A node's cache of what was sent to it: folders by the SHA-256 of their content, shared by all workers of a user."""

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

MOST_BYTES = 20 * 2**30
"""Above it those that were used longest ago are deleted. Large beside usual data, small beside usual disks."""


class NodeCache:
    """Keeps folders that were sent, for as long as they fit; what a worker uses is not deleted.

    Args:
        folder: where; None = a folder of this user's, readable for nobody else, among the temporary ones.
        most_bytes: all of it together.
    """

    def __init__(self, folder: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder or Path(tempfile.gettempdir()) / f"hpo-cache-{os.getuid()}"
        self._most_bytes = most_bytes
        self._in_use: dict[str, IO[bytes]] = {}
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = self.folder.lstat()
        if self.folder.is_symlink() or known.st_uid != os.getuid() or known.st_mode & 0o077:
            raise MachineError(f"{self.folder}: must be a folder that only this user can read; remove it")
        self._remove_abandoned()

    def get(self, digest: str, fetch: Callable[[], Iterable[bytes]]) -> Path:
        """Return the folder with this content; where it is not there, it is unpacked from what `fetch` returns."""
        folder = self.folder / digest
        if digest not in self._in_use:
            self._in_use[digest] = self._lock(digest, "using", fcntl.LOCK_SH)
            with self._lock(digest, "fetching", fcntl.LOCK_EX):
                if not folder.is_dir():
                    self._make_room()
                    unpack(fetch(), folder)
        os.utime(folder)
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
        """Delete what killed workers left half done."""
        for path in self.folder.glob(".*-*"):
            process = path.name[1:].partition("-")[0]
            if process.isdigit() and not psutil.pid_exists(int(process)):
                shutil.rmtree(path, ignore_errors=True)

    def _make_room(self) -> None:
        """Delete what was used longest ago and is used by nobody, until the rest fits."""
        folders = [path for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
        sizes = {path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in folders}
        total = sum(sizes.values())
        for path in sorted(folders, key=lambda path: path.stat().st_mtime):
            if total <= self._most_bytes:
                return
            with contextlib.suppress(BlockingIOError), self._lock(path.name, "using", fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(path, ignore_errors=True)
                total -= sizes[path]

    def _lock(self, digest: str, what: Literal["fetching", "using"], kind: int) -> IO[bytes]:
        """Return the open file of a lock; the kernel releases it when that is closed, however the process ends.

        Whoever uses a folder shares the lock with others; whoever deletes it must have it alone.
        """
        file = (self.folder / f"{digest}.{what}").open("ab")
        try:
            fcntl.flock(file, kind)
        except BlockingIOError:
            file.close()
            raise
        return file
