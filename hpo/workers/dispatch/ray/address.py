"""Checks whether a Ray cluster answers at an address. Ray itself would try for minutes."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping

from hpo.errors import DispatchError
from hpo.workers.dispatch.ray.private import CALL_CLUSTER

_CONNECT_SECONDS = 5.0
# Starting a process and loading Ray's library take 1 s, longer on a busy machine.
_ANSWER_SECONDS = 25.0
_HINT = "give the address that `ray start` printed, or null to start Ray here"


def is_connected_here() -> bool:
    """Return whether this process is connected to Ray, by `ray.init` or as a task, without importing Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def refuse_dead_address(address: str, seconds: float = _ANSWER_SECONDS) -> None:
    """Raise DispatchError unless a Ray cluster that we can join answers at `host:port`.

    An address of another form is not checked; Ray reads it itself.
    """
    place = _host_and_port(address)
    if place is None:
        return
    try:
        socket.create_connection(place, _CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "nothing answers"
        raise DispatchError(f"dispatch.address: no Ray cluster is at {address!r}: {reason}; {_HINT}") from error
    try:
        answer = _call_cluster(address, os.environ, seconds)
    except subprocess.TimeoutExpired as error:
        raise DispatchError(
            f"dispatch.address: the server at {address!r} does not answer as a Ray cluster within {seconds:g} s; "
            f"{_HINT}, and set its token if it needs one"
        ) from error
    if "answered" not in answer.stdout:
        lines = answer.stderr.strip().splitlines() or ["no reason given"]
        raise cannot_join(address, lines[-1][:300])


def cannot_join(address: str, why: str) -> DispatchError:
    """Return the error for a cluster that cannot be joined."""
    return DispatchError(f"dispatch.address: cannot join the Ray cluster at {address!r}: {why}; {_HINT}")


def refuse_open_cluster(address: str) -> None:
    """Raise DispatchError for a cluster without a token: anyone who reaches it can run code as this user.

    Source: CVE-2023-48022.
    """
    refuse_unclear_address(address)
    without_token = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    try:
        # Without a home folder Ray finds no ~/.ray/auth_token.
        answer = _call_cluster(address, without_token | {"RAY_AUTH_MODE": "disabled", "HOME": os.devnull})
    except subprocess.TimeoutExpired:
        return  # The cluster does not answer without a token.
    if "answered" in answer.stdout:
        raise DispatchError(
            f"dispatch.address: the Ray cluster at {address!r} asks for no token, so anyone who reaches it can run "
            f"code there. Make a token with `ray get-auth-token --generate` and copy it to each machine's "
            f"~/.ray/auth_token. Then start Ray there, and this command here, with RAY_AUTH_MODE=token in the "
            f"environment. dispatch.allow_open_cluster=true joins the cluster without a token."
        )


def refuse_unclear_address(address: str) -> None:
    """Raise DispatchError for an address of another form than `host:port`, without a connection."""
    if _host_and_port(address) is None:
        raise DispatchError(
            f"dispatch.address: must be host:port to check whether the cluster asks for a token (given {address!r}); "
            f"{_HINT}, or dispatch.allow_open_cluster=true to join without the check"
        )


def _host_and_port(address: str) -> tuple[str, int] | None:
    host, _, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() and "/" not in host else None


def _call_cluster(
    address: str, environment: Mapping[str, str], seconds: float = _ANSWER_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Call the cluster in a separate process, because the call waits in C code and cannot be cancelled."""
    return subprocess.run(
        [sys.executable, "-P", "-c", CALL_CLUSTER, address],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
