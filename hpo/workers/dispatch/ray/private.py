"""What we use of Ray besides its public names: why we need each, and what happens if a version of Ray lacks it.

- `start_api_server`: Ray starts the dashboard's process even if it is switched off. That takes 1.2 s and 100 MB, and
  asks the addresses of cloud providers (169.254.169.254) what machine this is, for statistics that are off. Without
  the name the process is started, and a warning says so.
- `Config`, `AuthenticationTokenLoader`, `ENABLE_RAY_CLUSTER`: Ray reads its variables on import, and the token once.
  With these names a process can start a second cluster, or its first after Ray was imported. Without them that is
  refused; our commands, which start Ray once, do not need them.
- `get_draining_nodes`: which nodes will be taken away soon; Ray has no public way to know. Without it trainings on them
  are not told to save their states, and go on from the last that they had saved.
- `NvidiaGPUAcceleratorManager`: how many GPUs Ray finds here, before it is started. Without it a search may begin on
  GPUs that another search uses, while others are free.
- `GcsClient`: says in 0.5 s that a cluster answers, or that the token is missing or wrong. `ray.init` takes 1.3 s for
  the first; the second it calls "Failed to connect", after 21 s or more, and `ray status` is no better. A search on a
  cluster with a token would wait that long each time, since it asks without one, too, and must be refused. Measured
  with Ray 2.60 on 2 cores, with the cluster's token and another one, by
  `time env RAY_AUTH_MODE=token RAY_AUTH_TOKEN=... python -c "..."`, where the code is
  `from ray._raylet import GcsClient; GcsClient('HOST:PORT')` or `import ray; ray.init('HOST:PORT')`.
- The texts of its errors: whether a worker was lost with its node, and how much memory was used.
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
# Named after the systems on which Ray switches it off by default.
REACHED_FROM_OUTSIDE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
# A program that prints `answered` if there is a cluster at the address that is its argument.
ASK = """
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
        _log.warning("dispatch: this version of Ray starts its dashboard's process, though without its pages")
        yield
        return
    # What Ray's function returns if the process cannot be started: no address and no process.
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
            "dispatch: this version of Ray reads its token when it is imported, and it was imported in this process "
            "before; start it in a new process, or choose dispatch=local"
        )


def number_of_gpus() -> int:
    """Return how many GPUs Ray would find on this machine; 0 where that cannot be known before it is started."""
    _, manager = look_up("ray._private.accelerators.nvidia_gpu", "NvidiaGPUAcceleratorManager")
    try:
        return int(manager.get_current_node_num_accelerators()) if manager else 0
    except Exception:  # noqa: BLE001 -- of NVIDIA's library, which may be of another version than its driver.
        return 0


def draining_nodes() -> Collection[str]:
    """Return Ray's names of the nodes that will be taken away soon; nothing where Ray does not tell."""
    worker, _ = look_up("ray._private.worker", "global_worker")
    client = getattr(getattr(worker, "global_worker", None), "gcs_client", None)
    ask = getattr(client, "get_draining_nodes", None)
    if ask is None:
        return ()
    try:
        return [node if isinstance(node, str) else node.hex() for node in ask(timeout=_SECONDS_TO_ANSWER)]
    except Exception:  # noqa: BLE001 -- of Ray's server, which may be busy; it is asked again.
        return ()


def is_at_fault(error: BaseException) -> bool:
    """Return whether the task may have ended its worker; False if the node is lost or does not answer."""
    return type(error).__name__ != "ActorUnavailableError" and "its node has died" not in str(error)


def reason(error: BaseException) -> str:
    """Return what an error of Ray says of a worker."""
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
    """Return a module of Ray and its attribute; None for what does not exist."""
    try:
        ray_module = importlib.import_module(module)
    except ImportError:
        return None, None
    return ray_module, getattr(ray_module, name, None)
