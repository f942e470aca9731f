"""Refuses, in every Python process that tests start, what would leave this machine; and notes that it was tried.

Python imports a module of this name when it starts; tests/conftest.py puts its folder on PYTHONPATH.
"""

import os
import socket
import sys

LOG = "HPO_TESTS_NETWORK_LOG"
# Another address of this machine that a test uses.
MINE = "HPO_TESTS_OWN_ADDRESS"


def is_here(host):
    """Return whether a host is this machine's loopback, or a name that no server has to be asked for."""
    if host is None or not isinstance(host, str | bytes):
        return True
    name = host.decode() if isinstance(host, bytes) else host
    name = name.removeprefix("::ffff:").partition("%")[0]
    mine = os.environ.get(MINE, "")
    return name in ("", "::", "::1", "0.0.0.0", "localhost", socket.gethostname(), mine) or name.startswith("127.")


def refuse(event, arguments):
    """Raise ConnectionRefusedError for a connection, a datagram or the resolution of a name beyond the loopback."""
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        asked, address = arguments[0], arguments[1]
        if asked.family not in (socket.AF_INET, socket.AF_INET6) or address is None or is_here(address[0]):
            return
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        address = arguments[0]
        if is_here(address):
            return
    else:
        return
    what = f"{event} {address!r} by {' '.join(sys.argv[:2])}"
    if os.environ.get(LOG):
        with open(os.environ[LOG], "a") as file:  # noqa: PTH123 -- imports nothing that a plain start would not
            file.write(what + "\n")
    raise ConnectionRefusedError(f"the tests leave this machine alone: {what}")


if any(argument.endswith("/ray/dashboard/dashboard.py") for argument in sys.orig_argv):
    # Tests of other loops start Ray themselves, and it starts this, which asks cloud providers what machine this is.
    os._exit(0)
sys.addaudithook(refuse)
