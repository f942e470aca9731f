"""Whether the process is the command's own; we never end another program's, such as a notebook's kernel."""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import NoReturn

_IS_OURS = ContextVar("is_ours", default=False)
_SECONDS_FOR_THREADS = 10.0


@contextmanager
def process_is_ours() -> Iterator[None]:
    """Run `hpo` as the program of this process."""
    token = _IS_OURS.set(True)
    try:
        yield
    finally:
        _IS_OURS.reset(token)


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
    signal.setitimer(signal.ITIMER_REAL, _SECONDS_FOR_THREADS)
    # Python runs this when the threads have ended. Later nobody takes the signal.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.0)


def keep_exit_code(code: int) -> None:
    """Let what ends the command's own process from now on end it with this exit code.

    An objective may have registered a handler with `atexit` that calls `os._exit`. Handlers of others still run before.
    """
    end = os._exit
    atexit.unregister(end)

    def end_with_code(status: int) -> NoReturn:  # noqa: ARG001 -- the same call
        end(code)

    os._exit = end_with_code
