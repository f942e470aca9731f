"""Runs a server of another program until it ends, and says so once its page answers."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException

import psutil

_SECONDS_TO_END = 10.0
_SECONDS_BETWEEN = 0.2


def serve(
    command: Sequence[str], environment: Mapping[str, str], place: tuple[str, int], tell: Callable[[], None]
) -> int:
    """Run a server until it ends or this process is interrupted, and return its exit code.

    `tell` is called once its page answers at `place`, a host and a port.
    """
    # A separate process group, which is ended as a whole, because the server has workers.
    # Standard output is for the address.
    server = subprocess.Popen(command, env=environment, stdout=2, start_new_session=True)
    try:
        while server.poll() is None and not _answers(*place):
            time.sleep(_SECONDS_BETWEEN)
        if server.poll() is None:
            tell()
        return server.wait()
    finally:
        _end(server)


def _answers(host: str, port: int) -> bool:
    """Return whether a page comes, or the question who asks: a server is there in both cases."""
    connection = HTTPConnection(host, port, timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _end(server: "subprocess.Popen[bytes]") -> None:
    """End the server and its workers; when this returns, none of them writes into its folder any more."""
    workers = []
    with contextlib.suppress(psutil.NoSuchProcess):
        workers = psutil.Process(server.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(_SECONDS_TO_END)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    psutil.wait_procs(workers, _SECONDS_TO_END)
