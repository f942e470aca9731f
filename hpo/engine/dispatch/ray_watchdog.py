"""Ends the Ray that a driver started, whatever becomes of the driver. Runs as a script of its own; imports no package.

A driver that is killed cannot stop what it started: Ray's servers notice by and by, its agents after minutes, and a
training in C code or stopped by a signal not at all. This process holds the reading end of a pipe whose other end the
driver holds; when that end closes, the driver is gone or done, and whatever still belongs to its Ray is killed.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator

import psutil

# What the driver sets while it starts Ray, and only then, so that all of Ray's processes, and theirs, inherit it.
MARK = "HPO_RAY_FOLDER"
_SECONDS = 10.0


def main(pipe: int, folder: str) -> int:
    """Wait for the end of the pipe, kill every process of the Ray in this folder, and delete it."""
    # Signals to the driver's group are for the driver.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.read(pipe, 1)
    deadline = time.monotonic() + _SECONDS
    # Again and again: what is killed may have been about to start another.
    while (found := list(processes_of(folder))) and time.monotonic() < deadline:
        for process in found:
            _kill(process)
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def processes_of(folder: str) -> Iterator[psutil.Process]:
    """Yield the living processes of the Ray in this folder, but not the driver, where it lives on."""
    for process in psutil.process_iter():
        try:
            if process.pid != os.getppid() and process.status() != psutil.STATUS_ZOMBIE and _belongs(process, folder):
                yield process
        except (psutil.Error, OSError):
            # Another user's, or gone in the meantime.
            continue


def _belongs(process: psutil.Process, folder: str) -> bool:
    """Return whether the process carries the folder's mark, or writes a log there.

    Ray's agents and workers write their titles over their environment, where the mark was.
    """
    if process.environ().get(MARK) == folder:
        return True
    return any(file.path.startswith(folder + os.sep) for file in process.open_files())


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.Error:
        return


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
