"""A worker's child process: it trains, and how it ended is known to its parent alone."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

from hpo.dispatch.memory_guard import TASK_PROCESS, MemoryGuard
from hpo.worker import LAST_MESSAGES, Message

# A core dump of a large process takes a while.
_SECONDS_TO_DIE = 10.0


class Child:
    """Runs tasks one after another in a process of its own, so that libraries and data are loaded once.

    Only a parent learns how a process ended. Whatever a task does to its process, from a segmentation fault to the
    kernel's killing it for want of memory, costs that process and not the worker, which starts another.

    Args:
        import_from: a folder to import the objective from besides the installed packages.
    """

    def __init__(self, import_from: str | None) -> None:
        self._import_from = import_from
        self._process: subprocess.Popen[bytes] | None = None
        self._tasks: IO[str]
        self._messages: IO[str]
        self._guard: MemoryGuard

    def start(self) -> None:
        """Start the process where none runs."""
        if self._process is not None:
            return
        their_tasks, our_tasks = os.pipe()
        our_messages, their_messages = os.pipe()
        arguments = [str(their_tasks), str(their_messages), str(os.getpid())]
        arguments += [self._import_from] if self._import_from else []
        # What this process can import, the child can: Ray adds the driver's folders to the path of its workers.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", TASK_PROCESS, *arguments],
            stdin=subprocess.DEVNULL,
            pass_fds=(their_tasks, their_messages),
            env=environment,
        )
        self._guard = MemoryGuard(self._process.pid)
        os.close(their_tasks)
        os.close(their_messages)
        self._tasks = os.fdopen(our_tasks, "w", encoding="utf-8")
        self._messages = os.fdopen(our_messages, encoding="utf-8")

    def run(self, payload: Mapping[str, Any]) -> Iterator[Message]:
        """Yield the messages of `hpo.worker.run_task`; where the process dies, `{"died": {...}}` is the last.

        That holds `signal` (its number, or None), `exit_code` (or None) and `memory` (where it was killed for want of
        it, the figures; else None).
        """
        self.start()
        try:
            self._tasks.write(json.dumps(payload) + "\n")
            self._tasks.flush()
        except BrokenPipeError:
            yield {"died": self._ended()}
            return
        # A line without its end was cut off by the death of its writer.
        while (line := self._messages.readline()).endswith("\n"):
            message = json.loads(line)
            yield message
            if not LAST_MESSAGES.isdisjoint(message):
                return
        yield {"died": self._ended()}

    def _ended(self) -> dict[str, int | str | None]:
        """Return how the process ended, and forget it."""
        assert self._process is not None
        # Its end of the pipe is closed, so it is dying, and what is left is to learn of what; unless its task closed
        # whatever was open, and then it is of no use any more.
        deadline = time.monotonic() + _SECONDS_TO_DIE
        while not os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if time.monotonic() > deadline:
                self._process.kill()
            time.sleep(0.005)
        self._guard.stop()
        code, self._process = self._process.wait(), None
        for pipe in (self._tasks, self._messages):
            # What was still to be written has no reader any more.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        signal_number, exit_code = (-code, None) if code < 0 else (None, code)
        return {"signal": signal_number, "exit_code": exit_code, "memory": self._guard.verdict}
