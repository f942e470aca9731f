"""The process that trains: reads a task a line, writes a message a line, and ends with the one that started it."""

import ctypes
import json
import os
import signal
import sys

from hpo.worker import run_task

# Of prctl(2): the kernel sends this process a signal when the thread that started it ends.
_PR_SET_PDEATHSIG = 1


def main(tasks_fd: int, messages_fd: int, parent: int, import_from: str | None = None) -> int:
    """Run every task that comes through one pipe, and send its messages through the other."""
    _end_with(parent)
    with os.fdopen(tasks_fd, encoding="utf-8") as tasks, os.fdopen(messages_fd, "w", encoding="utf-8") as messages:
        for line in tasks:
            for message in run_task(json.loads(line), import_from):
                # An objective may put anything into a point of its curve.
                messages.write(json.dumps(message, default=repr) + "\n")
                messages.flush()
    return 0


def _end_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent is gone, even in the middle of a task, or stopped.

    Where there is no Linux the end of the pipe tells, but only between two tasks.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the worker that started this process is gone")


if __name__ == "__main__":
    _tasks, _messages, _parent, *_import_from = sys.argv[1:]
    sys.exit(main(int(_tasks), int(_messages), int(_parent), *_import_from))
