"""Checks whether a Ray cluster answers at an address, before Ray is asked, which would try for minutes."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping

from hpo.errors import DispatchError
from hpo.workers.dispatch.ray.private import ASK

_CONNECT_SECONDS = 5.0
# Starting a process and loading Ray's library take 1 s, and longer on a busy machine.
_ANSWER_SECONDS = 25.0
_HINT = "give the address that `ray start` printed, or null to start Ray here"


def is_connected_here() -> bool:
    """Return whether this process is connected to Ray, by `ray.init` or as a task; Ray is not imported for it."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def refuse_dead_address(address: str, seconds: float = _ANSWER_SECONDS) -> None:
    """Raise DispatchError unless a Ray cluster that we can join listens at `host:port`; other forms are left to Ray."""
    place = _host_and_port(address)
    if place is None:
        return
    try:
        socket.create_connection(place, _CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "nothing answers"
        raise DispatchError(f"dispatch.address: no Ray cluster is at {address!r}: {reason}; {_HINT}") from error
    try:
        asked = _ask(address, os.environ, seconds)
    except subprocess.TimeoutExpired as error:
        raise DispatchError(
            f"dispatch.address: what listens at {address!r} does not answer as a Ray cluster within "
            f"{seconds:g} s; {_HINT}, and its token if it asks for one"
        ) from error
    if "answered" not in asked.stdout:
        lines = asked.stderr.strip().splitlines() or ["no reason given"]
        raise cannot_join(address, lines[-1][:300])


def cannot_join(address: str, why: str) -> DispatchError:
    """Return the user's error for a cluster that cannot be joined."""
    return DispatchError(f"dispatch.address: cannot join the Ray cluster at {address!r}: {why}; {_HINT}")


def refuse_open_cluster(address: str) -> None:
    """Raise DispatchError for a cluster that asks for no token: whoever reaches it is this user (CVE-2023-48022)."""
    refuse_unclear_address(address)
    nameless = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    try:
        # A home folder without ~/.ray/auth_token, which Ray would use.
        asked = _ask(address, nameless | {"RAY_AUTH_MODE": "disabled", "HOME": os.devnull})
    except subprocess.TimeoutExpired:
        return  # It does not answer without a token, as wanted.
    if "answered" in asked.stdout:
        raise DispatchError(
            f"dispatch.address: the Ray cluster at {address!r} asks for no token, so whoever reaches it can run code "
            f"there. Make one with `ray get-auth-token --generate`, copy it to each machine's ~/.ray/auth_token, and "
            f"start Ray there, and this command here, with RAY_AUTH_MODE=token in the environment. "
            f"dispatch.allow_open_cluster=true joins the cluster as it is."
        )


def refuse_unclear_address(address: str) -> None:
    """Raise DispatchError for an address of another form than `host:port`; nobody is asked."""
    if _host_and_port(address) is None:
        raise DispatchError(
            f"dispatch.address: must be host:port, so that it can be seen whether the cluster asks for a token, given "
            f"{address!r}; {_HINT}, or dispatch.allow_open_cluster=true to join it unseen"
        )


def _host_and_port(address: str) -> tuple[str, int] | None:
    host, _, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() and "/" not in host else None


def _ask(
    address: str, environment: Mapping[str, str], seconds: float = _ANSWER_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Call the cluster in a separate process: the call waits in C code and cannot be cancelled."""
    return subprocess.run(
        [sys.executable, "-P", "-c", ASK, address],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
