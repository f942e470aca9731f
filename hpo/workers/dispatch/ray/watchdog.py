"""A separate script that ends a driver's Ray processes, even if the driver is killed. It imports nothing of hpo.

A killed driver cannot stop its processes. Ray's servers notice its end late, Ray's agents after minutes, and a training
in C code never. The driver holds one end of a pipe. When that end closes, the watchdog kills the remaining processes.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator

import psutil

# The driver sets this variable only while it starts Ray. So all of Ray's processes and their children inherit it.
MARK = "HPO_RAY_FOLDER"
_SECONDS = 10.0


def main(pipe: int, folder: str) -> int:
    """Wait for the end of the pipe, kill every Ray process of this folder, and delete the folder."""
    # Signals to the driver's group are meant for the driver only.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.read(pipe, 1)
    deadline = time.monotonic() + _SECONDS
    # Repeat, because a process may have started another just before its end.
    while (remaining := list(processes_of(folder))) and time.monotonic() < deadline:
        for process in remaining:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def processes_of(folder: str) -> Iterator[psutil.Process]:
    """Yield the running processes that have the folder in MARK or a file open there, except the driver."""
    for process in psutil.process_iter():
        try:
            if process.pid == os.getppid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            # Ray's agents and workers overwrite their environment with their titles, so they lose the mark.
            is_marked = process.environ().get(MARK) == folder
            if is_marked or any(file.path.startswith(folder + os.sep) for file in process.open_files()):
                yield process
        except (psutil.Error, OSError):
            continue  # The process belongs to another user or has ended.


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
