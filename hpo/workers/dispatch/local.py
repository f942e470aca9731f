"""Runs tasks one after another in this process, so that a debugger can step into them."""

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Self

from hpo.config.secrets import excerpt
from hpo.workers.dispatch.dispatcher import Gpus, Setup, TaskReport, report_of
from hpo.workers.dispatch.printed import Echo, LogPace
from hpo.workers.dispatch.process.group import run_here
from hpo.workers.training.tasks import Task
from hpo.workers.training.worker import LAST_MESSAGES, Message


class LocalDispatcher:
    """A dispatcher with one slot. Each call of `wait` runs the oldest task up to its next report."""

    slots = 1
    runs_here = True
    gpus = Gpus()

    def __init__(self, import_from: str | None = None) -> None:
        self._import_from = import_from
        self._waiting: deque[Task] = deque()
        self._running: tuple[Task, Iterator[Message]] | None = None
        self._echo, self._pace = Echo(), LogPace()

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """Return a dispatcher with the arguments in `setup`."""
        return cls(setup.import_from)

    @property
    def now(self) -> float:
        """The current time in seconds, counted from an arbitrary moment."""
        return time.monotonic()

    def submit(self, task: Task) -> None:
        """Append the task to the queue."""
        self._waiting.append(task)

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:  # noqa: ARG002 -- the same call as its siblings
        """Run the oldest task up to its next report, and return that report; return nothing if there is no task."""
        if self._running is None:
            if not self._waiting:
                return ()
            task = self._waiting.popleft()
            self._running = task, run_here(task.payload, self._import_from)
            self._echo, self._pace = Echo(), LogPace()
        task, messages = self._running
        with self._echo.listening():
            message = next(messages)
        if is_last := not LAST_MESSAGES.isdisjoint(message):
            self._running = None
        if (is_last or self._pace.is_due()) and (printed := self._echo.text()):
            message = {**message, "printed": excerpt(printed, task.payload.known_secrets(), has_lines=True)}
        return (report_of(task, message),)

    def drop(self, task: Task) -> int:
        """End a task. Return 0 if the task was in the queue.

        If the task was running, return the id of this process, because this process is the worker.
        """
        if self._running is not None and self._running[0] is task:
            self._end_running()
            return os.getpid()
        self._waiting.remove(task)
        return 0

    def save_and_end(self, seconds: float) -> Sequence[TaskReport]:  # noqa: ARG002 -- the same call as its siblings
        """Return no outcome: a task runs only during `wait`, so there is nothing to end."""
        return ()

    def close(self) -> None:
        """Drop all tasks."""
        self._waiting.clear()
        self._end_running()

    def _end_running(self) -> None:
        with self._echo.listening():
            # When the last reference is gone, Python closes the task's generator.
            self._running = None
