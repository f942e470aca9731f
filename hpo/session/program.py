"""Whether the process is the command's own; we never end another program's, such as a notebook's kernel."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import NoReturn

_IS_OURS = ContextVar("is_ours", default=False)


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
