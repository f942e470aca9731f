"""Opens an address in the browser once a server answers there; run beside the server by `hpo ui`."""

import socket
import sys
import time
import webbrowser

_WAIT_SECONDS = 120.0


def main(address: str, host: str | None = None, port: str | None = None) -> int:
    """Open the address, once something listens on host and port where they are given; return the exit code."""
    end = time.monotonic() + _WAIT_SECONDS
    while host and port and not _answers(host, int(port)):
        if time.monotonic() > end:
            return 1
        time.sleep(0.3)
    return 0 if webbrowser.open(address) else 1


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
