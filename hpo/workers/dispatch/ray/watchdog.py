"""Ends the Ray that a driver started, even if the driver is killed. Runs as a separate script; imports nothing of hpo.

A killed driver cannot stop what it started: Ray's servers notice its end late, its agents after minutes, and a training
in C code never. When the other end of a pipe closes, which the driver holds, what remains of its Ray is killed.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator

import psutil

# The driver sets it only while it starts Ray, so that all of Ray's processes and their children inherit it.
MARK = "HPO_RAY_FOLDER"
_SECONDS = 10.0


def main(pipe: int, folder: str) -> int:
    """Wait for the end of the pipe, kill every process of the Ray in this folder, and delete it."""
    # Signals to the driver's group are meant for the driver only.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.read(pipe, 1)
    deadline = time.monotonic() + _SECONDS
    # Repeatedly: a killed process may have just started another.
    while (remaining := list(processes_of(folder))) and time.monotonic() < deadline:
        for process in remaining:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def processes_of(folder: str) -> Iterator[psutil.Process]:
    """Yield the running processes that carry the folder's mark or have a file open there, without the driver."""
    for process in psutil.process_iter():
        try:
            if process.pid == os.getppid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            # Ray's agents and workers overwrite the mark, for their titles take the place of their environment.
            is_marked = process.environ().get(MARK) == folder
            if is_marked or any(file.path.startswith(folder + os.sep) for file in process.open_files()):
                yield process
        except (psutil.Error, OSError):
            continue  # The process belongs to another user or has ended.


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
