"""The process of the command `hpo`: output, interrupts and end. This module never ends another program's process."""

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
    """Mark this process as a process of the command `hpo`. The toolkit may end a marked process immediately."""
    _IS_OURS.set(True)


def is_ours() -> bool:
    """Return whether `take_over` has marked this process. Call this function in the main thread."""
    return _IS_OURS.get()


def leave(code: int) -> NoReturn:
    """End this process of the command `hpo` with an exit code, without waiting for any thread."""
    assert is_ours()
    # A closed output must not prevent the end of the process.
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


class _LeftBehindError(BaseException):
    """Ends Python's wait for threads at exit. Python ignores this exception, and goes on with the exit."""


def wait_briefly_for_threads() -> None:
    """Limit Python's wait for running threads at exit to `SECONDS_FOR_THREADS`.

    An objective may have started a thread that never ends. Call this last, in a process of the command `hpo`.
    """
    main = threading.main_thread()
    running = [thread for thread in threading.enumerate() if thread is not main and not thread.daemon]
    if not running:
        return

    def end_wait(*_: object) -> None:
        # Without a live thread, Python has left the wait already.
        if names := ", ".join(repr(thread.name) for thread in running if thread.is_alive()):
            sys.stderr.write(f"threads that the objective left running were stopped: {names}\n")
            raise _LeftBehindError

    show = sys.unraisablehook
    sys.unraisablehook = lambda fault: None if fault.exc_type is _LeftBehindError else show(fault)
    signal.signal(signal.SIGALRM, end_wait)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_FOR_THREADS)
    # Python calls this after the threads have ended. Cancel the timer, because no handler catches its signal later.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.0)


class _Output(io.FileIO):
    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            error.filename = OUTPUT
            raise


def named_output(stream: TextIO) -> TextIO:
    """Return a copy of an output stream. If writing to the copy fails, the error names the file `standard output`.

    Return the stream itself if the stream has no file, as in a notebook.
    """
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
    """Replace a KeyboardInterrupt with one whose message is a single line: what is saved, and how to continue.

    If a script does not catch the new exception, Python prints the line instead of a traceback. The line comes from the
    attribute `says`, which an interrupted search sets on the KeyboardInterrupt that it raises. A KeyboardInterrupt with
    arguments and without `says` stays unchanged, because it already has a message. The class of the new exception is
    KeyboardInterrupt itself, because Python does not exit with code 130 for a subclass.
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        says = getattr(interruption, "says", "")
        if interruption.args and not says:
            raise
        # Outside of a run, such as while libraries are loaded, `says` is empty.
        in_one_line = KeyboardInterrupt(f"{says.strip().partition(chr(10))[0] or 'stopped'}; repeat the call to go on")
        before = sys.excepthook

        def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            """Print the interrupt's text instead of a traceback."""
            if error is in_one_line:
                sys.stderr.write(f"{error}\n")
            else:
                before(kind, error, trace)

        sys.excepthook = show
        raise in_one_line from None
