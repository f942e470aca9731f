"""The child process of a worker. The child trains, and the worker learns how the child ended."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hpo.config.secrets import excerpt
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.printed import LogPace, PrintedFile
from hpo.workers.dispatch.process.memory_guard import TASK_PROCESS, MemoryGuard
from hpo.workers.objective.path import PYTHONPATH, path_variable, python, whole_path
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import LAST_MESSAGES, Message

# How often to check whether the process is alive.
_MILLISECONDS_BETWEEN_CHECKS = 200
# How long to wait for the end of a process that no longer answers. Writing a large core dump takes a while.
_SECONDS_TO_DIE = 10.0
_CHUNK_BYTES = 1 << 16


class Child:
    """Runs tasks one after another in a separate process, so that libraries and data are loaded once.

    A segmentation fault or the kernel's out-of-memory killer may end the child process, but not the worker. The worker
    then ends the child's process group and starts another child.

    Args:
        import_from: the folder to import the objective from, in addition to installed packages; None = the working
            directory.
        is_fresh: whether each task gets a new process.
        arguments: the command line of the search; None = the command line of this process.
        path: the import path (`sys.path`) for the objective; None = the import path of this process.
    """

    def __init__(
        self,
        import_from: str | None,
        is_fresh: bool = False,
        arguments: Sequence[str] | None = None,
        path: Sequence[str] | None = None,
    ) -> None:
        self._import_from = import_from
        # The objective must be able to import the same modules as in the search's process.
        self._path = list(whole_path(import_from or str(Path.cwd())) if path is None else path)
        self._arguments = list(sys.argv if arguments is None else arguments)
        self._is_fresh, self._has_run = is_fresh, False
        self._process: subprocess.Popen[bytes] | None = None
        self._tasks = self._messages = self._life = -1
        self._received = b""
        self._guard: MemoryGuard
        self._printed = PrintedFile()
        # Another thread that kills the process must not hit a later process with the same id.
        self._reaping = threading.Lock()

    def start(self) -> None:
        """Start the process unless it is running."""
        if self._process is not None:
            return
        their_tasks, self._tasks = os.pipe()
        self._messages, their_messages = os.pipe()
        their_life, self._life = os.pipe()
        theirs = (their_tasks, their_messages, their_life)
        given = {"import_from": self._import_from, "path": self._path, "variable": os.environ.get(PYTHONPATH)}
        # The child must be able to import whatever this process can, including the driver's folders that Ray adds to
        # the path of its workers. The working directory is left out; it is added when an objective in it is resolved.
        # All processes have the same hash seed, because the order of sets depends on it.
        environment = os.environ | path_variable(self._import_from or str(Path.cwd())) | {"PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            python(TASK_PROCESS, *map(str, theirs), json.dumps(given)),
            stdin=subprocess.DEVNULL,
            stdout=self._printed.fileno(),
            stderr=subprocess.STDOUT,
            pass_fds=theirs,
            env=environment,
            start_new_session=True,  # `_end` kills the whole process group.
        )
        self._received, self._has_run = b"", False
        self._guard = MemoryGuard(self._process.pid)
        for pipe in theirs:
            os.close(pipe)

    def begin(self) -> int:
        """Start a process for the next task, or keep the running process if it may be reused. Return the process id."""
        if self._is_fresh and self._has_run:
            self.renew()
        self.start()
        assert self._process is not None
        return self._process.pid

    def run(
        self, payload: Payload, call: str, snapshots: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> Iterator[Message]:
        """Run a task and yield the messages of `run_task`. If the process dies, the last message is `{"died": {...}}`.

        `died` has three fields. `signal` and `exit_code` are numbers or None. `memory` is a text if the memory guard
        killed the process, else None.

        The last message, and one message every few seconds, has the task's output so far in `printed`, without secrets.

        Args:
            payload: the task.
            call: a unique name for this call; every message repeats it.
            snapshots: the folder for copies of the state; see `Snapshots`. None = no copies.
            variables: the environment variables for torch.distributed.
        """
        self.begin()
        self._has_run = True
        self._printed.empty()
        pace = LogPace()
        for message in self._answers(payload, call, snapshots, variables or {}):
            is_last = not LAST_MESSAGES.isdisjoint(message)
            if is_last and message.pop("is_used_up", False):
                self.renew()
            if is_last or pace.is_due():
                message["printed"] = excerpt(self._printed.text(), payload.known_secrets(), has_lines=True)
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
                # The task itself has written to the pipe.
                self.kill()
                break
            if "outcome" in message:
                message["outcome"] = Outcome(**message["outcome"])
            yield message
            if not LAST_MESSAGES.isdisjoint(message):
                return
        yield self._died(call)

    def request_end(self) -> None:
        """Send SIGTERM, so that the training can save its state and end. Any thread may call this."""
        with self._reaping:
            if self._process is not None:
                self._process.terminate()

    def kill(self) -> None:
        """Kill the process and its process group; `run` then yields `died`. Any thread may call this."""
        with self._reaping, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process is not None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def renew(self) -> None:
        """If the process is running, end it and its process group. The next task gets a new process."""
        if self._process is not None:
            self._end()

    def close(self) -> None:
        """If the process is running, end it and its process group. Delete the file with the process's output."""
        self.renew()
        self._printed.close()

    def _write(self, line: str) -> None:
        left = memoryview(line.encode())
        while left:
            left = left[os.write(self._tasks, left) :]

    def _next_line(self) -> bytes | None:
        """Return the next complete line; None if the process is dead or has closed its end of the pipe."""
        while b"\n" not in self._received:
            chunk = os.read(self._messages, _CHUNK_BYTES) if self._has_message() else b""
            if not chunk:
                return None  # The process died while it wrote a line.
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _has_message(self) -> bool:
        """Wait for data or for the end of the pipe. Return False if the process died and no data is left.

        The end of the pipe does not show that the process died, because other processes may hold the pipe open.
        """
        poll = select.poll()
        poll.register(self._messages, select.POLLIN)
        while not poll.poll(_MILLISECONDS_BETWEEN_CHECKS):
            if self._is_dead():
                return bool(poll.poll(0))
        return True

    def _is_dead(self) -> bool:
        assert self._process is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _died(self, call: str) -> Message:
        """Wait for the process to end. Return the `died` message."""
        deadline = time.monotonic() + _SECONDS_TO_DIE
        # The pipe is closed. Either the process is about to end, or its task has closed all open files.
        while not self._is_dead() and time.monotonic() < deadline:
            time.sleep(0.005)
        code = self._end()
        signal_number, exit_code = (-code, None) if code < 0 else (None, code)
        death = {"signal": signal_number, "exit_code": exit_code, "memory": self._guard.kill_reason}
        return {"call": call, "died": death}

    def _end(self) -> int:
        """Kill the process group, and wait for the process. Return its exit code; -9 = killed by signal 9."""
        assert self._process is not None
        self._guard.stop()
        # Kill before reaping: after reaping, the id of the process and its group may be reused.
        with self._reaping:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            code, self._process = self._process.wait(), None
        for descriptor in (self._tasks, self._messages, self._life):
            os.close(descriptor)
        return code


def _message(line: bytes) -> Message:
    """Parse a line as a message; return an empty dict if it is not a message."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}
