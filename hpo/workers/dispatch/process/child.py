"""A worker's child process, which trains; only its parent learns how it ended."""

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hpo.config.secrets import excerpt
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.process.memory_guard import TASK_PROCESS, MemoryGuard
from hpo.workers.objective.path import PYTHONPATH, path_variable, python, whole_path
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import LAST_MESSAGES, Message

# Interval at which to check that the process lives, where the system has no pidfd.
_SECONDS_BETWEEN_LOOKS = 0.2
_CHUNK_BYTES = 1 << 16
_MOST_PRINTED = 1 << 18  # bytes that are kept of what a task prints; the last


class Child:
    """Runs tasks one after another in a separate process, so that libraries and data are loaded once.

    A segmentation fault or the kernel's want of memory ends this process with its group, not the worker, which starts
    another; with `is_fresh` each task has one of its own. To one that no longer answers it leaves `seconds_to_die`: a
    core dump of a large process takes a while.
    """

    def __init__(
        self,
        import_from: str | None,
        is_fresh: bool = False,
        arguments: Sequence[str] | None = None,
        path: Sequence[str] | None = None,
        seconds_to_die: float = 10.0,
    ) -> None:
        self._import_from, self._seconds_to_die = import_from, seconds_to_die
        # What the search's process can import, so that a function finds the modules that it found there.
        self._path = list(whole_path(import_from or str(Path.cwd())) if path is None else path)
        self._arguments = list(sys.argv if arguments is None else arguments)  # of the search's command line
        self._is_fresh, self._has_run = is_fresh, False
        self._process: subprocess.Popen[bytes] | None = None
        self._tasks = self._messages = self._life = -1
        self._pidfd: int | None = None
        self._received = b""
        self._guard: MemoryGuard
        self._printed = _Printed()
        # Other threads may end the process, but not one that has its number later.
        self._reaping = threading.Lock()

    def start(self) -> None:
        """Start the process unless it runs."""
        if self._process is not None:
            return
        their_tasks, self._tasks = os.pipe()
        self._messages, their_messages = os.pipe()
        their_life, self._life = os.pipe()
        theirs = (their_tasks, their_messages, their_life)
        given = {"import_from": self._import_from, "path": self._path, "variable": os.environ.get(PYTHONPATH)}
        # The child can import whatever this process can: Ray adds the driver's folders to the path of its workers.
        # The working directory is added when the objective is resolved, if the objective lies there.
        # All have one hash of a text, on which the order of a set depends.
        environment = os.environ | path_variable(self._import_from or str(Path.cwd())) | {"PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            python(TASK_PROCESS, *map(str, theirs), json.dumps(given)),
            stdin=subprocess.DEVNULL,
            stdout=self._printed.fileno(),
            stderr=subprocess.STDOUT,
            pass_fds=theirs,
            env=environment,
            start_new_session=True,  # A separate process group, which `_end` kills as a whole.
        )
        self._received, self._has_run = b"", False
        self._pidfd = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else None
        self._guard = MemoryGuard(self._process.pid)
        for pipe in theirs:
            os.close(pipe)

    def begin(self) -> int:
        """Return the number of the process that runs the next task, which is started unless it runs."""
        if self._is_fresh and self._has_run:
            self.renew()
        self.start()
        assert self._process is not None
        return self._process.pid

    def run(
        self, payload: Payload, call: str, snapshots: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> Iterator[Message]:
        """Yield the messages of `run_task`; if the process dies, the last is `{"died": {...}}`.

        It holds `signal` (its number, or None), `exit_code` (or None), `memory` (the figures if it was killed because
        memory ran out; else None) and `out_of_step` (whether it was ended because it answered another call).
        With the last message comes `printed`, what the task printed, with its secrets hidden. Every message carries the
        unique name of this `call`. For `snapshots` see there; `variables` are those of torch.distributed.
        """
        self.begin()
        self._has_run = True
        self._printed.empty()
        for message in self._answers(payload, call, snapshots, variables or {}):
            if not LAST_MESSAGES.isdisjoint(message):
                if message.pop("is_used_up", False):
                    self.renew()
                yield {**message, "printed": excerpt(self._printed.text(), payload.known_secrets(), has_lines=True)}
            else:
                yield message

    def _answers(
        self, payload: Payload, call: str, snapshots: Path | None, variables: Mapping[str, str]
    ) -> Iterator[Message]:
        given = {
            "call": call,
            "payload": vars(payload),
            "snapshots": snapshots and str(snapshots),
            "variables": variables,
            "arguments": self._arguments,
        }
        try:
            self._write(json.dumps(given) + "\n")
        except BrokenPipeError:
            yield self._died(call)
            return
        while (line := self._next_line()) is not None:
            message = _message(line)
            if message.get("call") != call:
                yield self._died(call, out_of_step=True)
                return
            if "outcome" in message:
                message["outcome"] = Outcome.from_dict(message["outcome"])
            yield message
            if not LAST_MESSAGES.isdisjoint(message):
                return
        yield self._died(call)

    def request_end(self) -> None:
        """Let the training save its state and end: SIGTERM, from any thread."""
        with self._reaping:
            if self._process is not None:
                self._process.terminate()

    def kill(self) -> None:
        """Kill the process, from any thread; `run` then tells that it died."""
        with self._reaping, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process is not None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def renew(self) -> None:
        """End the process, if it runs, and its group; the next task has another."""
        if self._process is not None:
            self._end()

    def close(self) -> None:
        """End the process, if it runs, and its group."""
        self.renew()
        self._printed.close()

    def _write(self, line: str) -> None:
        left = memoryview(line.encode())
        while left:
            left = left[os.write(self._tasks, left) :]

    def _next_line(self) -> bytes | None:
        """Return the next whole line; None if the process is dead or has closed its end of the pipe."""
        while b"\n" not in self._received:
            chunk = os.read(self._messages, _CHUNK_BYTES) if self._has_message() else b""
            if not chunk:
                return None  # An incomplete line was cut off when its writer died.
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _has_message(self) -> bool:
        """Wait for data or the end of the pipe, which others may hold open; False if the process died without any."""
        poll = select.poll()
        poll.register(self._messages, select.POLLIN)
        if self._pidfd is not None:
            poll.register(self._pidfd, select.POLLIN)
        patience = None if self._pidfd is not None else _SECONDS_BETWEEN_LOOKS * 1000
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(patience)}
            if self._messages in ready:
                return True
            if self._is_dead():
                return bool(select.select([self._messages], [], [], 0)[0])

    def _is_dead(self) -> bool:
        assert self._process is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _died(self, call: str, out_of_step: bool = False) -> Message:
        """Return how the process ended, after waiting for its end, and drop it."""
        deadline = time.monotonic() + self._seconds_to_die
        # Its end of the pipe is closed: it is dying, or its task closed all open files and it has become useless.
        while not out_of_step and not self._is_dead() and time.monotonic() < deadline:
            time.sleep(0.005)
        code = self._end()
        signal_number, exit_code = (-code, None) if code < 0 else (None, code)
        death = {"signal": signal_number, "exit_code": exit_code, "memory": self._guard.verdict}
        return {"call": call, "died": {**death, "out_of_step": out_of_step}}

    def _end(self) -> int:
        """Kill what is left of the group; return the exit code of the process."""
        assert self._process is not None
        self._guard.stop()
        # Before the process is reaped: afterwards its number, which is also the group's, may be reused.
        with self._reaping:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            code, self._process = self._process.wait(), None
        for descriptor in (self._tasks, self._messages, self._life, self._pidfd):
            if descriptor is not None:
                os.close(descriptor)
        return code


def _message(line: bytes) -> Message:
    """Return the message in a line; an empty one if the line is not a message."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


class _Printed:
    """What a process and its children print: kept in a file without a name while a task runs, and read at its end."""

    def __init__(self) -> None:
        self._descriptor, path = tempfile.mkstemp(prefix="hpo-printed-")
        Path(path).unlink()
        # Several processes share the file's end, and it is emptied between tasks.
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | os.O_APPEND)

    def fileno(self) -> int:
        """Return the descriptor to write to."""
        return self._descriptor

    def empty(self) -> None:
        """Forget what was printed so far."""
        os.ftruncate(self._descriptor, 0)

    def text(self) -> str:
        """Return what was printed, of a long output the end, which begins with a line that says so."""
        size = os.fstat(self._descriptor).st_size
        left_out = max(0, size - _MOST_PRINTED)
        text = os.pread(self._descriptor, size - left_out, left_out).decode(errors="replace")
        return f"[{left_out:,} bytes before are left out]\n{text}" if left_out else text

    def close(self) -> None:
        """Delete the file."""
        os.close(self._descriptor)
