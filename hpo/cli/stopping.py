"""Signals: the first one stops a search in good order, the second at once."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Self

from hpo.cli.program import is_ours
from hpo.engine.dispatch import Dispatcher, Report
from hpo.engine.training.payload import Task
from hpo.errors import Interruption

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# While workers start there is nothing to save.
_PATIENCE_BEFORE_SECONDS = 0.5
# Every outcome is in the record the moment it arrives, so that nothing is lost where the rest takes longer than this.
_PATIENCE_SECONDS = 8.0
_LOOK_SECONDS = 0.5


class Stopped(Interruption):
    """A signal asked the search to stop."""


class Stopping:
    """Holds the signals while a study runs.

    The first signal raises Stopped where nothing can be lost by it: when `check` is called next, and while an objective
    runs in this process (`raising`); anywhere else an exception could leave an import or a transaction half done. The
    second one ends the process on the spot, and so does the first after some seconds; both also while Python itself
    is deaf in C code. In the process of another program, such as a notebook, the second one raises Stopped wherever it
    comes, and nothing ends the process.

    Attributes:
        number: the first signal; None while there was none.
        last_words: returns what to print in the end.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.last_words: Callable[[], str] = lambda: "\nstopped before anything was begun\n"
        self._patience = _PATIENCE_BEFORE_SECONDS
        self._may_raise = False
        self._may_end = is_ours()
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        # `nohup` ignores SIGHUP for whoever it starts, who is to go on.
        self._before = {n: handler for n, handler in before.items() if (n, handler) != (signal.SIGHUP, signal.SIG_IGN)}
        self.take_signals()
        # Python writes the numbers of signals there, from C code, before and besides calling our handler.
        self._wakeup_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._is_over.set()
        self._watcher.join()
        os.close(self._read_end)
        os.close(self._write_end)

    def take_signals(self) -> None:
        """Install the handlers; to be called again after Ray, which installs one of its own for SIGTERM in C code."""
        for number in self._before:
            signal.signal(number, self._on_signal)

    def begin(self, last_words: Callable[[], str]) -> None:
        """Let a first signal wait from here on until what was begun is saved, and say these words in the end."""
        self.check()
        self.last_words, self._patience = last_words, _PATIENCE_SECONDS

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Let a signal raise at once inside."""
        self._may_raise = True
        try:
            self.check()
            yield
        finally:
            self._may_raise = False

    def check(self) -> None:
        """Raise Stopped when there was a signal."""
        if self.number is not None:
            raise Stopped(self.number)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        is_second = self.number is not None
        self.number = self.number or number
        if self._may_raise if not is_second else not self._may_end:
            raise Stopped(self.number)

    def _watch(self) -> None:
        """Count the signals, and the seconds since the first one."""
        first, since = None, 0.0
        while not self._is_over.wait(0.05):
            try:
                numbers = [number for number in os.read(self._read_end, 64) if number in _SIGNALS]
            except BlockingIOError:
                numbers = []
            if first is None and numbers:
                first, since = numbers.pop(0), time.monotonic()
                _say(f"\n{signal.Signals(first).name}: stopping; a second signal stops at once\n")
            if not self._may_end:
                continue
            if first is not None and (numbers or time.monotonic() - since > self._patience):
                _say(self.last_words())
                os._exit(128 + first)


class StoppableDispatcher:
    """A dispatcher that hands out nothing more once there was a signal, and raises Stopped when all reports are in."""

    def __init__(self, dispatcher: Dispatcher, stopping: Stopping) -> None:
        self._dispatcher = dispatcher
        self._stopping = stopping

    @property
    def slots(self) -> int:
        """As the dispatcher's own."""
        return self._dispatcher.slots

    @property
    def runs_here(self) -> bool:
        """As the dispatcher's own."""
        return self._dispatcher.runs_here

    def submit(self, task: Task) -> None:
        """Hand the task on."""
        self._stopping.check()
        if self.runs_here:
            with self._stopping.raising():
                self._dispatcher.submit(task)
        else:
            self._dispatcher.submit(task)

    def wait(self, timeout: float | None = None) -> Sequence[Report]:
        """Return what the dispatcher returns; after a signal the outcomes that are there already, and then raise."""
        if self.runs_here:
            # A task that is interrupted here has handed over nothing yet.
            with self._stopping.raising():
                return self._dispatcher.wait(timeout)
        if self._stopping.number is None:
            reports = self._dispatcher.wait(min(timeout or _LOOK_SECONDS, _LOOK_SECONDS))
            if self._stopping.number is None:
                return reports
        else:
            reports = self._dispatcher.wait(0.0)
        # The signal may have gone to the workers too: that they died of it is no failure of their trials.
        outcomes = [report for report in reports if report.outcome is not None and not report.is_lost]
        if not outcomes:
            self._stopping.check()
        return outcomes

    def close(self) -> None:
        """Close the dispatcher."""
        self._dispatcher.close()


def _say(text: str) -> None:
    """Write to standard error without Python's buffers, which another thread may hold."""
    try:
        # Where the end is abrupt nobody shows the cursor again that a progress display hid.
        os.write(2, (("\x1b[?25h" if sys.stderr.isatty() else "") + text).encode())
    except OSError:
        # The terminal is gone, as after SIGHUP.
        return
