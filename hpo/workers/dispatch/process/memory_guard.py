"""Kills the largest training process before the machine runs out of memory, and records why."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable

import psutil

from hpo.machine import GIB, free_and_total

# A process is killed below this share of free memory. Ray's own guard acts at 5 % and would kill a worker instead of
# its child. At the kernel's limit a machine hardly responds.
MIN_FREE_FRACTION = 0.07
_SECONDS_BETWEEN_CHECKS = 0.25
# `Child` starts training processes with this module name, which identifies them.
TASK_PROCESS = "hpo.workers.dispatch.process.task_process"


class MemoryGuard:
    """Watches one training process. All guards use one rule, so that only the machine's largest process is killed."""

    def __init__(
        self,
        pid: int,
        memory: Callable[[], tuple[int, int]] = free_and_total,
        held: Callable[[], dict[int, int]] | None = None,
    ) -> None:
        self._pid, self._memory, self._held = pid, memory, held or held_by_task_processes
        self._ended = threading.Event()
        self.kill_reason: str | None = None  # its memory, and the free memory, when it was killed; None = it was not
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. Call it before the process is reaped: afterwards its number may be reused."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS_BETWEEN_CHECKS):
            free, total = self._memory()
            if free >= MIN_FREE_FRACTION * total:
                continue
            held = self._held()
            # `held` does not have a process that has just died.
            if self._pid not in held or held[self._pid] != max(held.values()):
                continue
            self.kill_reason = (
                f"out of memory: it held {held[self._pid] / GIB:.1f} GiB when {free / GIB:.1f} of {total / GIB:.1f} "
                f"GiB were free"
            )
            os.killpg(self._pid, signal.SIGKILL)
            return


def held_by_task_processes() -> dict[int, int]:
    """Return the resident bytes of this user's training processes and their forks, summed by process group."""
    held: dict[int, int] = {}
    for process in psutil.process_iter(["cmdline", "memory_info", "uids"]):
        info = process.info
        if TASK_PROCESS not in (info["cmdline"] or ()) or not info["uids"] or info["uids"].real != os.getuid():
            continue
        with contextlib.suppress(ProcessLookupError):
            group = os.getpgid(process.pid)
            held[group] = held.get(group, 0) + (info["memory_info"].rss if info["memory_info"] else 0)
    return held
