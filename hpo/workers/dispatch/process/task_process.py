"""The training process. It reads one task per line, writes one message per line, and ends when its parent ends."""

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
    """Run tasks until the parent closes the pipes; see `Child`.

    Args:
        tasks_fd: the pipe to read tasks from.
        messages_fd: the pipe to write messages to.
        life_fd: a pipe that the parent holds open; it closes when the parent ends.
        import_from: the folder to import the objective from, in addition to installed packages.
        path: entries to put first on `sys.path`, so that the objective can import from them.
        variable: the value of PYTHONPATH for programs that the objective starts; None = leave it unset.
    """
    # The toolkit is already imported, so modules in the user's folders can no longer hide the toolkit's modules.
    sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
    # `Child` set PYTHONPATH for this process only. Programs that the objective starts may use another Python.
    os.environ.pop(PYTHONPATH, None)
    if variable is not None:
        os.environ[PYTHONPATH] = variable
    # Ignore Ctrl-C, which is meant for the driver; a KeyboardInterrupt of the objective itself is an ordinary failure.
    # Do not use SIG_IGN, because programs that the objective starts would inherit it.
    signal.signal(signal.SIGINT, lambda *_: None)
    # With line buffering, no output is lost if the process dies.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    _start_killer(life_fd, (tasks_fd, messages_fd))
    _hide_from_children(tasks_fd, messages_fd)
    with os.fdopen(tasks_fd, encoding="utf-8") as tasks, os.fdopen(messages_fd, "w", encoding="utf-8") as messages:
        for line in tasks:
            given = json.loads(line)
            payload = Payload(**given["payload"])
            snapshots = Snapshots(payload.resume_dir, given["snapshots"])
            # The variables for torch.distributed say which rank this process has in its group, if there is a group.
            for name in VARIABLES:
                os.environ.pop(name, None)
            os.environ.update(given["variables"])
            # An objective may parse the arguments of its script.
            sys.argv[:] = given["arguments"]
            is_first = given["variables"].get("RANK", "0") == "0"
            for message in run_task(payload, import_from, must_score=is_first):
                if "outcome" in message:
                    message = {**message, "outcome": message["outcome"].to_dict(), **final_facts()}
                else:
                    message |= snapshots.take()
                messages.write(json.dumps({"call": given["call"], **message}) + "\n")
                messages.flush()
            release_gpu_memory()
    return 0


def final_facts() -> dict[str, Any]:
    """Return the fields to add to the outcome: `gpu_memory`, and `is_used_up` if the process cannot be used again.

    The process cannot be used again if it still belongs to a group of torch.distributed after the task.
    """
    distributed = sys.modules.get("torch.distributed")
    is_joined = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return gpu_memory() | ({"is_used_up": True} if is_joined else {})


def gpu_memory() -> dict[str, Any]:
    """Return `{"gpu_memory": [peak bytes since the last call, total bytes of the GPU]}`; {} if torch uses no GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    peak, total = torch.cuda.max_memory_reserved(), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.reset_peak_memory_stats()
    return {"gpu_memory": [peak, total]}


def release_gpu_memory() -> None:
    """Release the GPU memory of the last task, so that the next task of this or another worker can use it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        # Objects in reference cycles, such as a network with hooks, hold memory until they are collected.
        gc.collect()
        torch.cuda.empty_cache()


class Snapshots:
    """Copies the state of a training, so that the copy can be sent while the training continues.

    The process that sends the copy deletes the copy afterwards.

    Args:
        state: the folder of the state; None = the training stores no state.
        folder: the folder for the copies; None = do not make copies.
    """

    # The least time between two copies. If the machine is lost, about this much training is lost.
    seconds_between = 60.0

    def __init__(self, state: str | None, folder: str | None) -> None:
        self._places = (Path(state), Path(folder)) if state and folder else None
        self._last = time.monotonic()

    def take(self) -> dict[str, Any]:
        """Copy the state and return `{"snapshot": path}`.

        Return {} if it is too early for a copy, if there is no state, if no copies are wanted, or if the copy fails.
        """
        now = time.monotonic()
        if self._places is None or now - self._last < self.seconds_between or not self._places[0].is_dir():
            return {}
        state, folder = self._places
        copy = folder / f"{now}"
        try:
            copy_tree(state, copy)
        except OSError:
            # A thread of the training may be saving the state, or the disk may be full.
            return {}
        finally:
            self._last = time.monotonic()
        return {"snapshot": str(copy)}


def _start_killer(life_fd: int, others: tuple[int, ...]) -> None:
    """Start a grandchild process, which need not be reaped. It kills this process's group when `life_fd` closes."""
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


def _hide_from_children(*pipes: int) -> None:
    """Close these pipes in every process that a task starts, whether the process is a fork or another program."""
    nothing = os.open(os.devnull, os.O_RDWR)

    def close_pipes() -> None:
        for pipe in pipes:
            os.dup2(nothing, pipe, inheritable=False)

    for pipe in pipes:
        os.set_inheritable(pipe, False)
    os.register_at_fork(after_in_child=close_pipes)


if __name__ == "__main__":
    _tasks, _messages, _life, _given = sys.argv[1:]
    sys.exit(main(int(_tasks), int(_messages), int(_life), **json.loads(_given)))
