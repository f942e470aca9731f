"""The private names of Ray that are used: what each of them buys, and what is done where a version lacks it.

- `start_api_server`: Ray starts the dashboard's process even where none is wanted: 1.2 s of the start, 100 MB, and a
  question to the addresses of cloud providers (169.254.169.254) what machine this is, for statistics that are off.
  Without the name it is started, and a warning says so.
- `Config`, `AuthenticationTokenLoader`, `ENABLE_RAY_CLUSTER`: Ray reads its variables when it is imported, and the
  token once. With them a process can start a second cluster, or its first after somebody imported Ray. Without them
  that is refused in one line; the one start of every command of ours needs none.
- `GcsClient`: whether a cluster answers is asked in 0.6 s, against 1.3 s by `ray.init`, which joins it for that.
"""

import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

from hpo.errors import DispatchError

_log = logging.getLogger(__name__)

# Named after the systems where Ray has it off by itself.
REACHED_FROM_OUTSIDE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
# A program that prints `answered` where there is a cluster at the address that is its argument.
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
    services, original = _found("ray._private.services", "start_api_server")
    if original is None:
        _log.warning("dispatch: this version of Ray starts its dashboard's process, though without its pages")
        yield
        return
    # What it returns where the process could not be started: no address and no process.
    services.start_api_server = lambda *_, **__: ("", None)
    try:
        yield
    finally:
        services.start_api_server = original


def read_again() -> None:
    """Have Ray, where it was imported already, read its variables and the token again."""
    if "ray" not in sys.modules or not _can_read_again():
        return
    _found("ray._raylet", "Config")[1].initialize("")
    _found("ray._raylet", "AuthenticationTokenLoader")[1].instance().reset_cache()
    constants, _ = _found("ray._private.ray_constants", "ENABLE_RAY_CLUSTER")
    constants.ENABLE_RAY_CLUSTER = os.environ.get(REACHED_FROM_OUTSIDE, "1") not in ("0", "false")


def refuse_stale() -> None:
    """Raise DispatchError where Ray was imported with other variables, and cannot be told the new ones."""
    if "ray" in sys.modules and not _can_read_again():
        raise DispatchError(
            "dispatch: this version of Ray reads its token when it is imported, and it was imported in this process "
            "before; start it in a new process, or choose dispatch=local"
        )


def _can_read_again() -> bool:
    names = (
        ("ray._raylet", "Config"),
        ("ray._raylet", "AuthenticationTokenLoader"),
        ("ray._private.ray_constants", "ENABLE_RAY_CLUSTER"),
    )
    return all(_found(*name)[1] is not None for name in names)


def _found(module: str, name: str) -> tuple[Any, Any]:
    """Return a module of Ray and what has the name in it; None where there is none."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        return None, None
    return found, getattr(found, name, None)
