"""The private parts of Ray that we use, each with our reason and with the effect if a version of Ray lacks the part.

- `start_api_server` starts the dashboard's process. Ray calls it even if the dashboard is off. The process takes 1.2 s
  and 100 MB. It calls the metadata address of cloud providers (169.254.169.254) for usage statistics, even if
  statistics are off. So we replace the function. If Ray lacks the name, the process starts, and a warning says so.
- `Config`, `AuthenticationTokenLoader` and `ENABLE_RAY_CLUSTER` make Ray read its environment variables and
  the token again. Ray itself reads the variables only at import, and the token only once. A process needs these names
  if it starts a second cluster, or if it imports Ray before it starts the first one. If Ray lacks a name, we refuse
  such a start. Our commands start Ray only once and do not need this.
- `get_draining_nodes` returns the nodes that will be taken away soon; Ray has no public function for this. If Ray lacks
  the name, trainings on these nodes get no SIGTERM to save their states. They later continue from older saved states.
- `NvidiaGPUAcceleratorManager` counts the GPUs of this machine in the same way as Ray. We call it before Ray starts. If
  Ray lacks the name, a search may use GPUs that another search already uses, while other GPUs are free.
- `GcsClient` finds out within 0.5 s whether a cluster answers and accepts the token. If Ray lacks the name, our
  checks call `ray.init`, which takes 21 s or more to fail with a wrong token (Ray 2.60, 2 cores).
- The texts of Ray's errors say whether a worker was lost with its node, and how much memory was used. If a version of
  Ray has other texts, the loss of a node counts as a retry of the task, and our message leaves out the memory.
"""

import contextlib
import importlib
import logging
import os
import re
import sys
from collections.abc import Collection, Iterator
from typing import Any

from hpo.errors import DispatchError

_log = logging.getLogger(__name__)

_SECONDS_TO_ANSWER = 2
# This variable decides whether other machines can reach Ray's servers. Ray has named it after the systems on which
# they cannot by default.
REACHED_FROM_OUTSIDE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
# A program that prints `answered` if a cluster answers at the address that is its argument.
CALL_CLUSTER = """
import sys
try:
    from ray._raylet import GcsClient
except ImportError:
    import ray
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
else:
    GcsClient(address=sys.argv[1])
print("answered", flush=True)
"""


@contextlib.contextmanager
def without_dashboard() -> Iterator[None]:
    """Prevent Ray from starting the dashboard's process within the block."""
    services, original = look_up("ray._private.services", "start_api_server")
    if original is None:
        _log.warning("dispatch: hpo cannot keep this version of Ray from starting an unused dashboard process")
        yield
        return
    # If Ray's function cannot start the process, it returns no address and no process. Do the same.
    services.start_api_server = lambda *_, **__: ("", None)
    try:
        yield
    finally:
        services.start_api_server = original


def read_again() -> None:
    """If Ray is already imported, make it read its environment variables and the token again.

    Do nothing if this version of Ray lacks one of the private objects that this function uses.
    """
    if "ray" not in sys.modules or not _can_read_again():
        return
    look_up("ray._raylet", "Config")[1].initialize("")
    look_up("ray._raylet", "AuthenticationTokenLoader")[1].instance().reset_cache()
    constants, _ = look_up("ray._private.ray_constants", "ENABLE_RAY_CLUSTER")
    constants.ENABLE_RAY_CLUSTER = os.environ.get(REACHED_FROM_OUTSIDE, "1") not in ("0", "false")


def refuse_stale() -> None:
    """Raise DispatchError if Ray can no longer read its environment variables.

    This happens if this process has already imported Ray, and this version of Ray reads the variables only at import.
    """
    if "ray" in sys.modules and not _can_read_again():
        raise DispatchError(
            "dispatch: this version of Ray reads its token when it is imported, and this process has already imported "
            "Ray; run the search in a new process, or choose dispatch=local"
        )


def number_of_gpus() -> int:
    """Return the number of GPUs that Ray would find on this machine; 0 if the number is unknown before Ray starts."""
    _, manager = look_up("ray._private.accelerators.nvidia_gpu", "NvidiaGPUAcceleratorManager")
    try:
        return int(manager.get_current_node_num_accelerators()) if manager else 0
    except Exception:  # noqa: BLE001 -- NVIDIA's library raises anything if its version differs from the driver's.
        return 0


def draining_nodes() -> Collection[str]:
    """Return Ray's ids of the nodes that will be taken away soon.

    The result is empty if Ray does not answer, or has no function `get_draining_nodes`.
    """
    worker, _ = look_up("ray._private.worker", "global_worker")
    client = getattr(getattr(worker, "global_worker", None), "gcs_client", None)
    ask = getattr(client, "get_draining_nodes", None)
    if ask is None:
        return ()
    try:
        return [node if isinstance(node, str) else node.hex() for node in ask(timeout=_SECONDS_TO_ANSWER)]
    except Exception:  # noqa: BLE001 -- Ray's server may be busy; the next call tries again.
        return ()


def is_at_fault(error: BaseException) -> bool:
    """Return whether the task may have caused the loss of its worker; False if the node is lost or does not answer."""
    return type(error).__name__ != "ActorUnavailableError" and "its node has died" not in str(error)


def reason(error: BaseException) -> str:
    """Return a short text about an error that Ray raised."""
    name = type(error).__name__
    if name == "OutOfMemoryError":
        figures = re.search(r"was (\S+ used / \S+) limit", str(error))
        return f"worker killed by Ray: out of memory{f' ({figures[1]})' if figures else ''}"
    if name in ("ActorDiedError", "ActorUnavailableError", "WorkerCrashedError"):
        return "worker died"
    return f"worker failed ({name}: {' '.join(str(error).split())[:200]})"


def _can_read_again() -> bool:
    names = (
        ("ray._raylet", "Config"),
        ("ray._raylet", "AuthenticationTokenLoader"),
        ("ray._private.ray_constants", "ENABLE_RAY_CLUSTER"),
    )
    return all(look_up(*name)[1] is not None for name in names)


def look_up(module: str, name: str) -> tuple[Any, Any]:
    """Return a module of Ray and an attribute of the module, each None if it is missing."""
    try:
        ray_module = importlib.import_module(module)
    except ImportError:
        return None, None
    return ray_module, getattr(ray_module, name, None)
