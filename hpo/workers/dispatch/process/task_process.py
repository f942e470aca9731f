"""The process that trains: reads one task per line, writes one message per line, and ends with its parent."""

import gc
import io
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpo.files import copy_tree
from hpo.workers.dispatch.process.group import VARIABLES
from hpo.workers.objective.path import PYTHONPATH
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import run_task


def main(
    tasks_fd: int,
    messages_fd: int,
    life_fd: int,
    import_from: str | None = None,
    path: Sequence[str] = (),
    variable: str | None = None,
) -> int:
    """Run every task from one pipe, send its messages by another, and end when the third closes; see `Child`.

    The objective can import from `path`; `variable` is PYTHONPATH for the programs that it starts.
    """
    # The toolkit was imported without what may be in its way there.
    sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
    # This process's own was made for it alone: a program may run another Python.
    os.environ.pop(PYTHONPATH, None)
    if variable is not None:
        os.environ[PYTHONPATH] = variable
    # Ctrl-C is for the driver, and an objective's own KeyboardInterrupt is a failure like others. Not SIG_IGN, which
    # programs that the objective starts would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    # What is printed is seen even if the process dies.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    _start_keeper(life_fd, (tasks_fd, messages_fd))
    _keep_from_children(tasks_fd, messages_fd)
    with os.fdopen(tasks_fd, encoding="utf-8") as tasks, os.fdopen(messages_fd, "w", encoding="utf-8") as messages:
        for line in tasks:
            given = json.loads(line)
            payload = Payload(**given["payload"])
            snapshots = Snapshots(payload.resume_dir, given["snapshots"])
            # Of torch.distributed: which of the processes that train together this one is, or none.
            for name in VARIABLES:
                os.environ.pop(name, None)
            os.environ.update(given["variables"])
            # A script's own arguments, which its objective may parse.
            sys.argv[:] = given["arguments"]
            is_first = given["variables"].get("RANK", "0") == "0"
            for message in run_task(payload, import_from, must_score=is_first):
                if "outcome" in message:
                    message = {**message, "outcome": message["outcome"].to_dict(), **at_the_end()}
                else:
                    message |= snapshots.take()
                messages.write(json.dumps({"call": given["call"], **message}) + "\n")
                messages.flush()
            release_gpu_memory()
    return 0


def at_the_end() -> dict[str, Any]:
    """Return `gpu_memory`, and `is_used_up` where the task has left this process joined to others."""
    distributed = sys.modules.get("torch.distributed")
    is_joined = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return gpu_memory() | ({"is_used_up": True} if is_joined else {})


def gpu_memory() -> dict[str, Any]:
    """Return `{"gpu_memory": [most bytes held since the last call, bytes of the GPU]}`; empty where torch uses none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    peak, total = torch.cuda.max_memory_reserved(), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.reset_peak_memory_stats()
    return {"gpu_memory": [peak, total]}


def release_gpu_memory() -> None:
    """Give back what the last task held of a GPU, so that the next, of this worker or another, finds it free."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        # Cycles of objects, such as a network with hooks, hold their memory until they are collected.
        gc.collect()
        torch.cuda.empty_cache()


class Snapshots:
    """Copies a training's state into a folder, whole, to be sent while it goes on; whoever sends it deletes it.

    Sending takes bandwidth; with a machine at most those `seconds_between` of training are lost.
    """

    def __init__(self, state: str | None, folder: str | None, seconds_between: float = 60.0) -> None:
        self._seconds_between = seconds_between
        self._places = (Path(state), Path(folder)) if state and folder else None
        self._last = time.monotonic()

    def take(self) -> dict[str, Any]:
        """Return `{"snapshot": path}` with a new copy; empty where it is not time yet, or there is no state."""
        now = time.monotonic()
        if self._places is None or now - self._last < self._seconds_between or not self._places[0].is_dir():
            return {}
        state, folder = self._places
        copy = folder / f"{now}"
        copy_tree(state, copy)
        self._last = time.monotonic()
        return {"snapshot": str(copy)}


def _start_keeper(life_fd: int, others: tuple[int, ...]) -> None:
    """Start a process that kills this one's whole group when the pipe closes; a grandchild, for which nobody waits."""
    first = os.fork()
    if first != 0:
        os.close(life_fd)
        os.waitpid(first, 0)
        return
    if os.fork() != 0:
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for pipe in others:
        os.close(pipe)
    os.read(life_fd, 1)
    os.killpg(0, signal.SIGKILL)


def _keep_from_children(*pipes: int) -> None:
    """Keep every process that a task starts, fork or program, from holding these pipes."""
    nothing = os.open(os.devnull, os.O_RDWR)

    def let_go() -> None:
        for pipe in pipes:
            os.dup2(nothing, pipe, inheritable=False)

    for pipe in pipes:
        os.set_inheritable(pipe, False)
    os.register_at_fork(after_in_child=let_go)


if __name__ == "__main__":
    _tasks, _messages, _life, _given = sys.argv[1:]
    sys.exit(main(int(_tasks), int(_messages), int(_life), **json.loads(_given)))
