"""An interrupt of a script: one line in place of a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


@contextmanager
def interrupted_in_one_line() -> Iterator[None]:
    """Let an interrupt outside of a run, such as while libraries are loaded, say as much as one of a run."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        if not interruption.args:
            interruption.args = ("stopped; the same call goes on",)
            say_in_one_line(interruption)
        raise


def say_in_one_line(interruption: KeyboardInterrupt) -> None:
    """Let a script that does not catch it end with its text instead of a traceback; Python itself exits with 130.

    It is a KeyboardInterrupt and none of a subclass: only after those does Python end as by the signal.
    """
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if error is interruption:
            sys.stderr.write(f"{error}\n")
        else:
            before(kind, error, trace)

    sys.excepthook = hook
