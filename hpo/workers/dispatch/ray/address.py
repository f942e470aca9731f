"""Checks quickly whether a Ray cluster answers at an address. Ray itself would try to connect for minutes."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping

from hpo.errors import DispatchError
from hpo.workers.dispatch.ray.private import CALL_CLUSTER

_CONNECT_SECONDS = 5.0
# Includes the start of a process that imports Ray, which takes 1 s, and longer on a busy machine.
_ANSWER_SECONDS = 25.0
_HINT = "give the address that `ray start` printed, or null to start Ray here"


def is_connected_here() -> bool:
    """Return, without importing Ray, whether this process is connected to Ray, as after `ray.init` or in a Ray task."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def refuse_dead_address(address: str, seconds: float = _ANSWER_SECONDS) -> None:
    """Raise DispatchError if no Ray cluster answers at `host:port`, or if the cluster refuses this process.

    An address in another format is not checked, because only Ray can interpret it.
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
            f"{_HINT}. If the cluster requires a token, copy the token to ~/.ray/auth_token, and set "
            f"RAY_AUTH_MODE=token in the environment"
        ) from error
    if "answered" not in answer.stdout:
        lines = answer.stderr.strip().splitlines() or ["no reason given"]
        raise cannot_join(address, lines[-1][:300])


def cannot_join(address: str, why: str) -> DispatchError:
    """Return the DispatchError for a cluster that cannot be joined."""
    return DispatchError(f"dispatch.address: cannot join the Ray cluster at {address!r}: {why}; {_HINT}")


def refuse_open_cluster(address: str) -> None:
    """Raise DispatchError if a cluster does not require a token, or if its address is not `host:port`.

    Anyone who can reach a cluster without a token can run code on the cluster as this user; see CVE-2023-48022.
    """
    refuse_unclear_address(address)
    without_token = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    try:
        # Hide the home folder, so that Ray does not find the token in ~/.ray/auth_token.
        answer = _call_cluster(address, without_token | {"RAY_AUTH_MODE": "disabled", "HOME": os.devnull})
    except subprocess.TimeoutExpired:
        return  # Without a token the cluster does not answer, so it requires one.
    if "answered" in answer.stdout:
        raise DispatchError(
            f"dispatch.address: the Ray cluster at {address!r} asks for no token, so anyone who reaches it can run "
            f"code on the cluster. Make a token with `ray get-auth-token --generate`, and copy the token to "
            f"~/.ray/auth_token on each machine. Then start Ray again, and run this command again, both with "
            f"RAY_AUTH_MODE=token in the environment. To join without a token, set dispatch.allow_open_cluster=true."
        )


def refuse_unclear_address(address: str) -> None:
    """Raise DispatchError if an address does not have the format `host:port`. The check makes no connection."""
    if _host_and_port(address) is None:
        raise DispatchError(
            f"dispatch.address: must be host:port, given {address!r}; hpo cannot check whether a cluster at another "
            f"kind of address asks for a token; {_HINT}; to join without this check, set "
            f"dispatch.allow_open_cluster=true"
        )


def _host_and_port(address: str) -> tuple[str, int] | None:
    host, _, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() and "/" not in host else None


def _call_cluster(
    address: str, environment: Mapping[str, str], seconds: float = _ANSWER_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Call the cluster from a new process, because the call waits in C code, where Python cannot limit the time."""
    return subprocess.run(
        [sys.executable, "-P", "-c", CALL_CLUSTER, address],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
