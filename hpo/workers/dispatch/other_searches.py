"""The CPUs and GPUs that searches on this machine use.

Each search creates an empty file that all users can see. The name of the file says what the search uses.
"""

import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

# This environment variable sets the folder of the files, for machines where each user has a separate temporary folder.
FOLDER = "HPO_SEARCHES_DIR"
_NUMBER = r"(\d{1,7}\.\d{4})"
# A process creates its file after it has started, but both times are rounded, so allow a difference.
_ROUNDED_SECONDS = 2.0


@dataclass(frozen=True)
class Use:
    """The CPUs and GPUs of this machine that a search uses.

    Attributes:
        cpus: number of cores.
        gpus: number of GPUs, which may be a fraction.
        gpu_numbers: the numbers by which the machine identifies these GPUs; empty if unknown.
    """

    cpus: float
    gpus: float = 0.0
    gpu_numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return the numbers of used cores and GPUs as text, such as `8 cores and 2 GPUs`."""
        cores = "1 core" if self.cpus == 1 else f"{self.cpus:g} cores"
        gpus = "1 GPU" if self.gpus == 1 else f"{self.gpus:g} GPUs"
        return f"{cores} and {gpus}" if self.gpus else cores


NOTHING = Use(0.0)


@dataclass(frozen=True)
class OtherSearch:
    """Another search on this machine: its process id, its user, and the CPUs and GPUs that it uses."""

    process: int
    user: str
    use: Use


@contextmanager
def announce_use(use: Use) -> Iterator[None]:
    """Within the block, tell other searches on this machine which CPUs and GPUs this process uses.

    If the file of this process cannot be created, the only effect is that other searches do not know of this use.
    """
    numbers = "+".join(map(str, use.gpu_numbers))
    path = _folder() / f"{_prefix()}{os.getpid()}_{use.cpus:.4f}_{use.gpus:.4f}_{numbers}"
    with suppress(OSError):
        # Use O_NOFOLLOW and O_EXCL, because another user may have created a link with this name.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o444))
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()


def other_searches() -> list[OtherSearch]:
    """Return the other searches that share cores with this process, in the order in which they started.

    Each search creates a file that names its process. Ignore a file whose owner does not own the process, so that no
    user can fake the file of another user's process. If a search of this user was killed, delete its file.
    """
    import psutil  # Import it here: that takes 30 ms, and `hpo list` imports this module too.

    form = re.compile(rf"{re.escape(_prefix())}(\d{{1,10}})_{_NUMBER}_{_NUMBER}_((?:\d{{1,4}}(?:\+\d{{1,4}})*)?)")
    found = list[tuple[float, OtherSearch]]()
    with suppress(OSError), os.scandir(_folder()) as entries:
        for entry in entries:
            match = form.fullmatch(entry.name)
            if match is None or int(match[1]) == os.getpid():
                continue
            with suppress(OSError, psutil.Error):
                about, numbers = entry.stat(follow_symlinks=False), tuple(map(int, filter(None, match[4].split("+"))))
                process = _process_of(int(match[1]), about)
                if process is not None and _share_cores(process):
                    use = Use(float(match[2]), float(match[3]), numbers)
                    found.append((process.create_time(), OtherSearch(process.pid, process.username(), use)))
                elif process is None and about.st_uid == os.getuid():
                    Path(entry.path).unlink()
    return [other for _, other in sorted(found, key=lambda each: each[0])]


def _process_of(number: int, file: os.stat_result) -> "psutil.Process | None":
    """Return the process with the id `number`; None if the process has ended, or did not create the file."""
    import psutil

    if not stat.S_ISREG(file.st_mode) or not psutil.pid_exists(number):
        return None
    process = psutil.Process(number)
    is_its = process.uids().real == file.st_uid and process.create_time() <= file.st_mtime + _ROUNDED_SECONDS
    return process if is_its else None


def _share_cores(process: "psutil.Process") -> bool:
    """Return whether this process and `process` may share a core. Jobs of a cluster scheduler have separate cores."""
    if not hasattr(process, "cpu_affinity"):
        return True  # This system has no CPU affinity, so all processes share all cores.
    return not {*process.cpu_affinity()}.isdisjoint(os.sched_getaffinity(0))


def total_use(others: Sequence[OtherSearch]) -> Use:
    """Return the CPUs and GPUs that the searches in `others` use in total."""
    numbers = {number for other in others for number in other.use.gpu_numbers}
    cpus, gpus = (sum(getattr(other.use, name) for other in others) for name in ("cpus", "gpus"))
    return Use(cpus, gpus, tuple(sorted(numbers)))


def _folder() -> Path:
    return Path(os.environ.get(FOLDER) or tempfile.gettempdir())


def _prefix() -> str:
    """Return the prefix of this machine's files. It names the machine, because machines may share the folder."""
    return f"hpo-search_{re.sub('[^A-Za-z0-9.-]', '-', os.uname().nodename)}_"
