"""The store on a node's disk, for files that the driver sends. All workers of a search on the node share it."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hpo.errors import MachineError
from hpo.workers.store.packing import unpack


class DiskStore:
    """Stores folders by the SHA-256 of their content. Each run of a search has its own store.

    When a worker of any search starts on this machine, the worker deletes all stores that no running worker uses.

    Args:
        search: the id of the run of the search.
        root: the folder that contains all stores; None = a temporary folder that only this user can read.

    Raises:
        MachineError: the folder of all stores is a link, is open to other users, or has another owner.
    """

    def __init__(self, search: str, root: Path | None = None) -> None:
        self._root = root or Path(tempfile.gettempdir()) / f"hpo-store-{os.getuid()}"
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._root.lstat()
        if self._root.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise MachineError(
                f"{self._root}: must be a folder of this user, not a link, with access for only this user; delete it, "
                f"and hpo creates it again"
            )
        self._folder = self._root / search
        # Without this lock, this worker might delete a folder that another worker is about to use.
        with _locked(self._root):
            for folder in self._root.iterdir():
                with contextlib.suppress(BlockingIOError), _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    shutil.rmtree(folder, ignore_errors=True)
            self._folder.mkdir(exist_ok=True)
            self._in_use = contextlib.ExitStack()
            self._in_use.enter_context(_locked(self._folder, fcntl.LOCK_SH))

    def get(self, digest: str, fetch: Callable[[], Iterable[bytes]]) -> Path:
        """Return the stored folder with this SHA-256. If it is missing, first create it from the pieces of `fetch`."""
        folder = self._folder / digest
        with _locked(self._folder / "fetching"):
            if not folder.is_dir():
                unpack(fetch(), folder)
        return folder

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Create an empty folder, yield it, and delete it at the end of the block."""
        with contextlib.ExitStack() as in_use:
            with _locked(self._root):
                folder = Path(tempfile.mkdtemp(dir=self._root))
                in_use.enter_context(_locked(folder, fcntl.LOCK_SH))
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Release this run's store, so that the next worker that starts may delete it."""
        self._in_use.close()


@contextlib.contextmanager
def _locked(path: Path, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Lock a folder or a file for the duration of the `with` block; if `path` does not exist, create a file.

    If the process ends, the kernel releases the lock.
    """
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)
