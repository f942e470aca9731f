"""The private names of Ray that we use: why we need each, and what happens if a version of Ray lacks it.

- `start_api_server`: Ray starts the dashboard's process even if the dashboard is off. The process takes 1.2 s and
  100 MB, and calls the metadata address of cloud providers (169.254.169.254) for usage statistics, even if these are
  off. Without the name the process starts, and a warning says so.
- `Config`, `AuthenticationTokenLoader`, `ENABLE_RAY_CLUSTER`: Ray reads its variables on import, and the token once.
  With these names a process can start a second cluster, or its first one after Ray was imported. Without them such a
  start is refused. Our commands start Ray once and do not need them.
- `get_draining_nodes`: the nodes that will be taken away soon; Ray has no public function for them. Without it,
  trainings on these nodes do not get SIGTERM, and continue from their last saved states.
- `NvidiaGPUAcceleratorManager`: the number of GPUs that Ray finds here, before it starts. Without it a search may begin
  on GPUs that another search uses, while others are free.
- `GcsClient`: it takes 0.5 s to find that a cluster answers, or that the token is missing or wrong. `ray.init` takes
  1.3 s for the first. For a wrong token it fails with "Failed to connect" after 21 s or more, and `ray status` is no
  better. A search on a cluster with a token would wait so long each time, because it also tries without a token.
  Measured with Ray 2.60 on 2 cores, with the cluster's token and another one, by
  `time env RAY_AUTH_MODE=token RAY_AUTH_TOKEN=... python -c "..."`, where the code is
  `from ray._raylet import GcsClient; GcsClient('HOST:PORT')` or `import ray; ray.init('HOST:PORT')`.
- The texts of Ray's errors: they say whether a worker was lost with its node, and how much memory was used.
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
# Ray's name has the systems on which it is off by default.
REACHED_FROM_OUTSIDE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
# A program that prints `answered` if a cluster answers at the address in its argument.
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
    """Keep Ray from starting the dashboard's process."""
    services, original = look_up("ray._private.services", "start_api_server")
    if original is None:
        _log.warning("dispatch: this version of Ray starts its dashboard's process, but without its pages")
        yield
        return
    # Ray's function returns no address and no process if the process cannot be started.
    services.start_api_server = lambda *_, **__: ("", None)
    try:
        yield
    finally:
        services.start_api_server = original


def read_again() -> None:
    """Let Ray, if it is imported, read its variables and the token again."""
    if "ray" not in sys.modules or not _can_read_again():
        return
    look_up("ray._raylet", "Config")[1].initialize("")
    look_up("ray._raylet", "AuthenticationTokenLoader")[1].instance().reset_cache()
    constants, _ = look_up("ray._private.ray_constants", "ENABLE_RAY_CLUSTER")
    constants.ENABLE_RAY_CLUSTER = os.environ.get(REACHED_FROM_OUTSIDE, "1") not in ("0", "false")


def refuse_stale() -> None:
    """Raise DispatchError if Ray was imported with other variables and cannot read the new ones."""
    if "ray" in sys.modules and not _can_read_again():
        raise DispatchError(
            "dispatch: this version of Ray reads its token when it is imported, and this process has imported it "
            "already; run the search in a new process, or choose dispatch=local"
        )


def number_of_gpus() -> int:
    """Return the number of GPUs that Ray would find on this machine; 0 if it is unknown before Ray starts."""
    _, manager = look_up("ray._private.accelerators.nvidia_gpu", "NvidiaGPUAcceleratorManager")
    try:
        return int(manager.get_current_node_num_accelerators()) if manager else 0
    except Exception:  # noqa: BLE001 -- NVIDIA's library raises anything if its version differs from the driver's.
        return 0


def draining_nodes() -> Collection[str]:
    """Return Ray's ids of the nodes that will be taken away soon; empty if Ray does not say."""
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
    """Return whether the task may have ended its worker; False if the node is lost or does not answer."""
    return type(error).__name__ != "ActorUnavailableError" and "its node has died" not in str(error)


def reason(error: BaseException) -> str:
    """Return a text about an error of Ray."""
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
    """Return a module of Ray and its attribute; None if one is missing."""
    try:
        ray_module = importlib.import_module(module)
    except ImportError:
        return None, None
    return ray_module, getattr(ray_module, name, None)
