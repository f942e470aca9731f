"""Runs tasks in this process, one after another, where a debugger can follow them."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Self

from hpo.config.sealing import excerpt
from hpo.engine.dispatch.dispatcher import Gpus, Report, Setup, report_of
from hpo.engine.dispatch.echo import Echo
from hpo.engine.dispatch.process.here import run_here
from hpo.engine.training.payload import Task
from hpo.engine.training.worker import LAST_MESSAGES, Message


class LocalDispatcher:
    """One slot. `wait` runs the oldest task up to its next report."""

    slots = 1
    runs_here = True
    gpus = Gpus()

    def __init__(self, import_from: str | None = None) -> None:
        self._import_from = import_from
        self._waiting: deque[Task] = deque()
        self._running: tuple[Task, Iterator[Message]] | None = None
        self._echo = Echo()

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """Return the dispatcher of this setup."""
        return cls(setup.import_from)

    @property
    def now(self) -> float:
        """Seconds, from any moment."""
        return time.monotonic()

    def submit(self, task: Task) -> None:
        """Put the task at the end of the queue."""
        self._waiting.append(task)

    def wait(self, timeout: float | None = None) -> Sequence[Report]:  # noqa: ARG002 -- the same call as its siblings
        """Return the next report of the oldest task; blocks while it trains."""
        if self._running is None:
            if not self._waiting:
                return ()
            task = self._waiting.popleft()
            self._running = task, run_here(task.payload, self._import_from)
            self._echo = Echo()
        task, messages = self._running
        with self._echo.listening():
            message = next(messages)
        if not LAST_MESSAGES.isdisjoint(message):
            self._running = None
            if printed := self._echo.text():
                message = {**message, "printed": excerpt(printed, task.payload.known_secrets(), has_lines=True)}
        return (report_of(task, message),)

    def save_and_end(self, seconds: float) -> Sequence[Report]:  # noqa: ARG002 -- the same call as its siblings
        """Return nothing: between two calls no task runs here."""
        return ()

    def close(self) -> None:
        """Drop all tasks."""
        self._waiting.clear()
        self._running = None
