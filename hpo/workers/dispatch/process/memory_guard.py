"""Kills the largest training process before the machine runs out of memory, and records why."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable

import psutil

from hpo.machine import GIB, free_and_total

# Share of free memory below which a process is killed. Above the 5 % of Ray's own guard, which would kill a worker
# without knowing what its child holds, and well above the kernel's limit, at which a machine hardly responds.
MIN_FREE_FRACTION = 0.07
_SECONDS_BETWEEN_LOOKS = 0.25
# Identifies training processes; `Child` starts them by this name.
TASK_PROCESS = "hpo.workers.dispatch.process.task_process"


class MemoryGuard:
    """Watches one training process; all guards apply one rule, so that only the machine's largest process is killed."""

    def __init__(
        self,
        pid: int,
        memory: Callable[[], tuple[int, int]] = free_and_total,
        held: Callable[[], dict[int, int]] | None = None,
    ) -> None:
        self._pid, self._memory, self._held = pid, memory, held or held_by_task_processes
        self._ended = threading.Event()
        self.verdict: str | None = None  # what it held and what was free when it was killed; None = it was not
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch. Call it before the process is reaped: afterwards its number may be reused."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS_BETWEEN_LOOKS):
            free, total = self._memory()
            if free >= MIN_FREE_FRACTION * total:
                continue
            held = self._held()
            # A process that has just died is not in `held`.
            if self._pid not in held or held[self._pid] != max(held.values()):
                continue
            self.verdict = (
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
