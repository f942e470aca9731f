"""A separate script that ends the Ray processes of a driver, even if the driver is killed.

A killed driver cannot stop these processes. Ray's servers notice late that the driver has ended, Ray's agents notice
this after minutes, and a training in C code never notices it. The driver holds one end of a pipe open. When that end
closes, the watchdog kills the remaining processes. The script imports nothing from hpo.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator

import psutil

# The driver sets this environment variable only while it starts Ray, so only Ray's processes and their children inherit
# it.
MARK = "HPO_RAY_FOLDER"
_SECONDS = 10.0


def main(pipe: int, folder: str) -> int:
    """Wait until the pipe closes. Then kill every process that belongs to this Ray folder, and delete the folder."""
    # Ignore signals that are sent to the driver's whole group, because they are meant for the driver only.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.read(pipe, 1)
    deadline = time.monotonic() + _SECONDS
    # Repeat, because a process may have started another process just before it was killed.
    while (remaining := list(processes_of(folder))) and time.monotonic() < deadline:
        for process in remaining:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def processes_of(folder: str) -> Iterator[psutil.Process]:
    """Yield the running processes that belong to this folder, except the driver.

    A process belongs to the folder if its environment variable MARK names the folder, or if the process has opened a
    file in the folder.
    """
    for process in psutil.process_iter():
        try:
            if process.pid == os.getppid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            # Ray's agents and workers lose the variable, because they overwrite their environment with a process title.
            is_marked = process.environ().get(MARK) == folder
            if is_marked or any(file.path.startswith(folder + os.sep) for file in process.open_files()):
                yield process
        except (psutil.Error, OSError):
            continue  # The process belongs to another user or has ended.


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
