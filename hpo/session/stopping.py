"""Handles signals. The first signal stops a search in an orderly way. The second signal stops the search at once."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Self

from hpo.errors import Interruption
from hpo.files import write_atomically
from hpo.session.program import is_ours
from hpo.study.study import PreparedStudy
from hpo.workers.dispatch.dispatcher import Dispatcher, TaskReport
from hpo.workers.training.tasks import FINAL_FOLD, Task

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A signal that programs do not use; without a handler it has no effect.
_WAKE_UP = signal.SIGURG
# The time from the first signal to the end of the process while workers start; there is nothing to save yet.
_PATIENCE_BEFORE_SECONDS = 0.5
# The same time during the search. Outcomes are recorded as they arrive, so none is lost if this time is too short.
_PATIENCE_SECONDS = 8.0
# The additional time for trainings in other processes to save their states, which may be large.
_SAVING_SECONDS = 30.0
# The time between two checks for a signal while trainings in other processes report nothing.
_POLL_SECONDS = 0.5
# The time from a signal to the message that the search is stopping; most searches end before this message.
_SILENT_SECONDS = 1.0


class Stopped(Interruption):
    """Raised after a signal, or after a user has stopped the search.

    `says` is the text about what is saved and how to continue.
    """

    says = ""


class Stopping:
    """Handles signals while a study runs.

    After the first signal, the next `check` raises Stopped. An objective in this process runs in a `with` block of
    `raising`. In this block, the signal itself raises Stopped, unless the objective handles or ignores signals. Outside
    the block, the signal raises nothing, because an exception could leave an import or a transaction half done.

    A process of the command `hpo` ends at once after a second signal. It also ends some seconds after the first signal,
    even while Python is busy in C code. The process of another program, such as a notebook, is never ended. In such a
    process, the second signal raises Stopped anywhere.

    Attributes:
        number: the number of the first handled signal; None = no signal yet.
        last_words: returns the text about what is saved and how to continue.
        tidy_up: is called before this object ends the process at once.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._received: int | None = None
        before = "\nstopped before any training began\nto begin again, run the same command\n"
        self.last_words: Callable[[], str] = lambda: before
        self.tidy_up: Callable[[], None] = lambda: None
        self._patience = _PATIENCE_BEFORE_SECONDS
        self._may_raise = False
        self._may_end = is_ours()
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
        # Python handles signals in the main thread alone; a search in another thread runs until its program ends it.
        self._takes_signals = threading.current_thread() is threading.main_thread()
        before = {number: signal.getsignal(number) for number in _SIGNALS if self._takes_signals}
        # Under `nohup`, which makes SIGHUP ignored, the search must continue.
        self._before = {n: handler for n, handler in before.items() if (n, handler) != (signal.SIGHUP, signal.SIG_IGN)}
        self.take_signals()
        # Python writes the numbers of signals to this pipe from C code, before it calls our handler.
        if self._takes_signals:
            self._wakeup_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
            self._wake_up_before = signal.signal(_WAKE_UP, self._receive_ignored)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Stopped):
            error.says = self.last_words()
        if self._takes_signals:
            signal.set_wakeup_fd(self._wakeup_before)
            signal.signal(_WAKE_UP, self._wake_up_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._is_over.set()
        self._watcher.join()
        os.close(self._read_end)
        os.close(self._write_end)

    def take_signals(self) -> None:
        """Install the handlers of SIGINT and SIGTERM, and of SIGHUP unless the process ignored SIGHUP.

        Call this method again after Ray's start, because Ray installs a SIGTERM handler in C code.
        """
        for number in self._before:
            signal.signal(number, self._on_signal)

    def begin(self, last_words: Callable[[], str], runs_here: bool) -> None:
        """Set `last_words`, which returns the message for a stop. From now on, a first signal leaves time to save work.

        Raise Stopped if there was a signal already. `runs_here` says whether trainings run in this process.
        """
        self.last_words = last_words
        self.check()
        self._patience = _PATIENCE_SECONDS + (0.0 if runs_here else _SAVING_SECONDS)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Within the block, raise Stopped as soon as a signal arrives."""
        self._may_raise = True
        try:
            self.check()
            yield
        finally:
            self._may_raise = False

    def check(self) -> None:
        """Raise Stopped if there was a signal."""
        if (number := self.number or self._received) is not None:
            raise Stopped(number)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        is_second = self.number is not None
        self.number = self.number or number
        if self._may_raise if not is_second else not self._may_end:
            raise Stopped(self.number)

    def _receive_ignored(self, *_: object) -> None:
        """Install an empty handler for each signal that an objective has set to `SIG_IGN`.

        Without a handler, Python does not report the signal to the thread of `_watch`.
        """
        for number in self._ignored():
            signal.signal(number, lambda *_: None)

    def _ignored(self) -> list[int]:
        return [number for number in self._before if signal.getsignal(number) is signal.SIG_IGN]

    def _watch(self) -> None:
        """Read signals until the search is over.

        End a process of the command `hpo` at the second signal, or when the time for saving after the first signal is
        over. Never end another process.
        """
        since, has_announced = 0.0, False
        while not self._is_over.wait(0.05):
            if self._ignored():
                # Wake the main thread, which alone may set handlers.
                signal.pthread_kill(threading.main_thread().ident or 0, _WAKE_UP)
            try:
                numbers = [number for number in os.read(self._read_end, 64) if number in _SIGNALS]
            except BlockingIOError:
                numbers = []
            if self._received is None and numbers:
                self._received, since = numbers.pop(0), time.monotonic()
            if self._received is None:
                continue
            seconds = time.monotonic() - since
            if not has_announced and seconds > _SILENT_SECONDS:
                has_announced = True
                _print_error(f"\n{signal.Signals(self._received).name}: stopping; a second signal stops at once\n")
            if self._may_end and (numbers or seconds > self._patience):
                _print_error(self.last_words())
                self.tidy_up()
                os._exit(128 + self._received)


def _print_error(text: str) -> None:
    """Write to standard error without Python's buffers, which another thread may have locked."""
    try:
        # Show the cursor again that a progress display hid: nothing else does at an abrupt end.
        os.write(2, (("\x1b[?25h" if sys.stderr.isatty() else "") + text).encode())
    except OSError:
        # The terminal is closed, for example after SIGHUP.
        return


class SessionDispatcher:
    """Passes tasks to a dispatcher, and returns the dispatcher's reports. After a signal, raises Stopped.

    Before the exception, tasks in other processes get some time to save their states.

    Args:
        dispatcher: runs the tasks.
        stopping: receives the signals.
        study: the study whose folder gets the output of tasks; None = do not save the output.
    """

    def __init__(self, dispatcher: Dispatcher, stopping: Stopping, study: PreparedStudy | None = None) -> None:
        self._dispatcher, self._stopping, self._study = dispatcher, stopping, study
        self._has_ended = False
        self.runs_here, self.slots, self.gpus = dispatcher.runs_here, dispatcher.slots, dispatcher.gpus

    @property
    def now(self) -> float:
        """The current time on the workers' clock, in seconds from an arbitrary moment."""
        return self._dispatcher.now

    def submit(self, task: Task) -> None:
        """Pass the task to the dispatcher, unless there was a signal.

        After a signal, raise Stopped if tasks run in this process. If tasks run in other processes, return without an
        effect; the next `wait` ends the running tasks.
        """
        if self.runs_here:
            self._stopping.check()
            with self._stopping.raising():
                self._dispatcher.submit(task)
        elif self._stopping.number is None:
            self._dispatcher.submit(task)

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:
        """Return the dispatcher's new reports. Wait for a report at most `timeout` seconds; None = no limit.

        If tasks run in other processes, wait at most half a second, even if `timeout` is longer or None.

        If tasks run in this process, each call after a signal raises Stopped. If tasks run in other processes, the
        first call after a signal lets the tasks save their states and end, and returns the last outcomes. If there are
        no last outcomes, this call raises Stopped. Each later call also raises Stopped.
        """
        if self.runs_here:
            # A task that is interrupted in this process has not reported its outcome yet.
            with self._stopping.raising():
                return self._save_logs(self._dispatcher.wait(timeout))
        if self._stopping.number is None:
            seconds = _POLL_SECONDS if timeout is None else min(timeout, _POLL_SECONDS)
            reports = self._save_logs(self._dispatcher.wait(seconds))
            if self._stopping.number is None:
                return reports
        reports = () if self._has_ended else self.save_and_end(_SAVING_SECONDS)
        self._has_ended = True
        # Skip lost tasks: the signal may have killed their workers, and their trials did not fail.
        outcomes = [report for report in reports if report.outcome is not None and not report.is_lost]
        if not outcomes:
            self._stopping.check()
        return outcomes

    def drop(self, task: Task) -> int:
        """End the task. Return its worker as a number, as in `Outcome.worker`; 0 if no worker has begun the task."""
        return self._dispatcher.drop(task)

    def save_and_end(self, seconds: float) -> Sequence[TaskReport]:
        """Let running tasks save their states and end. Return the last reports."""
        return self._save_logs(self._dispatcher.save_and_end(seconds))

    def close(self) -> None:
        """Close the dispatcher."""
        self._dispatcher.close()

    def _save_logs(self, reports: Sequence[TaskReport]) -> Sequence[TaskReport]:
        """Move the trainings' output, which may be long, from the reports to log files; return the shorter reports."""
        for report in reports:
            if report.printed and self._study is not None:
                task, folder = report.task, self._study.folder
                folder.logs_dir.mkdir(mode=0o700, exist_ok=True)
                name = "final" if task.index == FINAL_FOLD else self._study.layout.name(task.index)
                write_atomically(folder.log_path(task.trial, name), report.printed)
        return [report if report.printed is None else replace(report, printed=None) for report in reports]
