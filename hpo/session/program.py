"""The process that `hpo` runs in: its output, its interrupts, its end; never the end of another program's process."""

import atexit
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NoReturn, TextIO

from hpo.errors import OUTPUT

_IS_OURS = ContextVar("is_ours", default=False)
SECONDS_FOR_THREADS = 10.0


def take_over() -> None:
    """Let `hpo` be the program of this process, until it ends."""
    _IS_OURS.set(True)


def is_ours() -> bool:
    """Return whether the process is the command's own and may be ended at once. Call it in the main thread."""
    return _IS_OURS.get()


def leave(code: int) -> NoReturn:
    """End the command's own process with this exit code, without waiting for any thread."""
    assert is_ours()
    # A closed output must not keep the process from ending.
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


class _LeftBehindError(BaseException):
    """Ends Python's wait for threads, which at its end passes over errors and goes on."""


def wait_briefly_for_threads() -> None:
    """Let Python, which at its end waits for all threads, wait some seconds for those that run now, and no longer.

    An objective may have left one that never ends. Call it last, in the command's own process.
    """
    main = threading.main_thread()
    left = [thread for thread in threading.enumerate() if thread is not main and not thread.daemon]
    if not left:
        return

    def end_wait(*_: object) -> None:
        # Where none runs, Python is further on.
        if names := ", ".join(repr(thread.name) for thread in left if thread.is_alive()):
            sys.stderr.write(f"a thread of the objective ({names}) did not end, so it was stopped\n")
            raise _LeftBehindError

    show = sys.unraisablehook
    sys.unraisablehook = lambda fault: None if fault.exc_type is _LeftBehindError else show(fault)
    signal.signal(signal.SIGALRM, end_wait)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_FOR_THREADS)
    # Python runs this when the threads have ended. Later nobody takes the signal.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.0)


class _Output(io.FileIO):
    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            error.filename = OUTPUT
            raise


def named_output(stream: TextIO) -> TextIO:
    """Return the stream with faults that carry a name, as those of opened files do; itself, if it has no descriptor."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = _Output(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


@contextmanager
def interrupted_in_one_line() -> Iterator[None]:
    """Let an interrupt say in one line what is saved, and how to go on; a script that does not catch it ends with that.

    It is a KeyboardInterrupt and none of a subclass: only after those does Python end as by the signal, with 130.
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        says = getattr(interruption, "says", "")
        if interruption.args and not says:
            raise
        # Nothing is said outside of a run, such as while libraries are loaded.
        told = KeyboardInterrupt(f"{says.strip().partition(chr(10))[0] or 'stopped'}; the same call goes on")
        before = sys.excepthook

        def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            """Print its text instead of a traceback."""
            if error is told:
                sys.stderr.write(f"{error}\n")
            else:
                before(kind, error, trace)

        sys.excepthook = show
        raise told from None
