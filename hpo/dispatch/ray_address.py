"""Whether a Ray cluster answers at an address: asked before Ray itself is, which would try for minutes."""

import os
import socket
import subprocess
import sys

from hpo.errors import DispatchError

_CONNECT_SECONDS = 5.0
# Starting a process and loading Ray's library take 1 s, on a busy machine some more.
_ANSWER_SECONDS = 25.0
_ASK = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]); print('answered', flush=True)"
_HINT = "give the address that `ray start` printed, or null to start Ray here"


def refuse_dead_address(address: str) -> None:
    """Raise DispatchError where nothing, or something else than a Ray cluster of ours, listens at `host:port`.

    Addresses of another form, such as `auto`, are left to Ray.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "nothing answers"
        raise DispatchError(f"dispatch.address: no Ray cluster is at {address!r}: {reason}; {_HINT}") from error
    try:
        # In a process of its own: the call waits in C code and cannot be given up.
        asked = subprocess.run(
            [sys.executable, "-c", _ASK, address],
            env=os.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DispatchError(
            f"dispatch.address: what listens at {address!r} does not answer as a Ray cluster within "
            f"{_ANSWER_SECONDS:g} s; {_HINT}, and its token if it asks for one"
        ) from error
    if "answered" not in asked.stdout:
        lines = asked.stderr.strip().splitlines() or ["no reason given"]
        raise DispatchError(f"dispatch.address: cannot join the Ray cluster at {address!r}: {lines[-1][:300]}; {_HINT}")
