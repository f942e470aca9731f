"""Kills the largest training process before the machine runs out of memory, and records why."""

import contextlib
import os
import signal
import threading

import psutil

from hpo.machine import GIB, free_and_total

# A process is killed when less than this share of memory is free. Ray has a similar guard, but it acts only below 5 %
# and kills the worker instead of its child. The kernel acts only when the machine hardly responds any more.
MIN_FREE_FRACTION = 0.07
_SECONDS_BETWEEN_CHECKS = 0.25
# `Child` runs this module in every training process, so its name in the command line identifies these processes.
TASK_PROCESS = "hpo.workers.dispatch.process.task_process"


class MemoryGuard:
    """Watches one training process.

    When memory runs out, the guard kills the process and its process group, if this group holds the most memory. It
    compares the process groups of all training processes of this user.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self.kill_reason: str | None = None  # a text with the used and free memory at the kill; None = not killed
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. Call this before the process is reaped, because its id may be reused afterwards."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS_BETWEEN_CHECKS):
            free, total = free_and_total()
            if free >= MIN_FREE_FRACTION * total:
                continue
            held = held_by_task_processes()
            # A process that has just died is missing in `held`.
            if self._pid not in held or held[self._pid] != max(held.values()):
                continue
            self.kill_reason = (
                f"out of memory: the training held {held[self._pid] / GIB:.1f} GiB, and {free / GIB:.1f} of "
                f"{total / GIB:.1f} GiB were free"
            )
            os.killpg(self._pid, signal.SIGKILL)
            return


def held_by_task_processes() -> dict[int, int]:
    """Return the resident memory, in bytes, of each process group with a training process of this user.

    The memory of a group includes the memory of all forks of the training process.
    """
    held: dict[int, int] = {}
    for process in psutil.process_iter(["cmdline", "memory_info", "uids"]):
        info = process.info
        if TASK_PROCESS not in (info["cmdline"] or ()) or not info["uids"] or info["uids"].real != os.getuid():
            continue
        with contextlib.suppress(ProcessLookupError):
            group = os.getpgid(process.pid)
            held[group] = held.get(group, 0) + (info["memory_info"].rss if info["memory_info"] else 0)
    return held
