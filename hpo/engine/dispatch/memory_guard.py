"""Kills the largest of the training processes before the machine runs out of memory, and says so."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable

import psutil

from hpo.machine import GIB, free_and_total

# Share of the memory below which somebody has to go: before Ray's own guard, whose limit is 5 %, and which would take a
# worker without knowing what its child holds; and long before the kernel's, at which a machine hardly moves.
MIN_FREE_FRACTION = 0.07
_SECONDS_BETWEEN_LOOKS = 0.25
# How a training process is recognised among all others; `Child` starts it by this name.
TASK_PROCESS = "hpo.engine.dispatch.task_process"


class MemoryGuard:
    """Watches one training process in a thread of its own.

    Every worker has one and all judge alike, so that only the one whose process is the largest on the machine kills.

    Args:
        pid: the training process.
        memory: returns the free bytes and all there are.
    """

    def __init__(self, pid: int, memory: Callable[[], tuple[int, int]] = free_and_total) -> None:
        self._pid = pid
        self._memory = memory
        self._ended = threading.Event()
        self.verdict: str | None = None
        """What the process held and what was free when it was killed; None where it was not."""
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch. To be called before the process is reaped: its number may belong to another one then."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS_BETWEEN_LOOKS):
            free, total = self._memory()
            if free >= MIN_FREE_FRACTION * total:
                continue
            held = _held_by_task_processes()
            # One that has just died is not among them.
            if self._pid not in held or held[self._pid] != max(held.values()):
                continue
            self.verdict = (
                f"out of memory: it held {held[self._pid] / GIB:.1f} GiB when {free / GIB:.1f} of {total / GIB:.1f} "
                f"GiB were free"
            )
            os.killpg(self._pid, signal.SIGKILL)
            return


def _held_by_task_processes() -> dict[int, int]:
    """Return the resident bytes of every training process of this user and its copies, by the number of their group."""
    held: dict[int, int] = {}
    for process in psutil.process_iter(["cmdline", "memory_info", "uids"]):
        info = process.info
        if TASK_PROCESS not in (info["cmdline"] or ()) or not info["uids"] or info["uids"].real != os.getuid():
            continue
        with contextlib.suppress(ProcessLookupError):
            group = os.getpgid(process.pid)
            held[group] = held.get(group, 0) + (info["memory_info"].rss if info["memory_info"] else 0)
    return held
