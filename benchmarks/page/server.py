"""A server that speed.py starts and ends."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator

import psutil

WATCH = ("-m", "hpo", "watch", "s", "--page", "--no-browser")


@contextlib.contextmanager
def served(*command: str, at: str = "") -> Iterator[tuple[psutil.Popen, str]]:
    """Start a server, and yield its process and its address: the given one, or that which it prints."""
    out = subprocess.DEVNULL if at else subprocess.PIPE
    server = psutil.Popen([sys.executable, *command], stdout=out, stderr=subprocess.DEVNULL, text=True)
    try:
        yield server, at or next(line.strip() for line in server.stdout if line.startswith("http"))
    finally:
        for process in (*server.children(recursive=True), server):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        server.wait()


def processor_seconds(server: psutil.Popen) -> float:
    """Return what a process has taken of the processors."""
    return float(sum(server.cpu_times()[:2]))
