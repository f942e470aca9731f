"""Why a worker was lost, or did not start, in words."""

import re
import shutil
import tempfile

# With less free disk space, Ray and its workers cannot write their logs.
_LEAST_BYTES = 16 * 2**20


def start_hint() -> str:
    """Return the likeliest cause of workers that do not start, such as a full disk."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < _LEAST_BYTES:
        return f"{folder}, where Ray keeps its files, has {free:,} bytes free: make room there, or set TMPDIR"
    return "is hpo installed where they run?"


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
