"""Output for programs: with `--json`, standard output has only JSON objects, one per line.

A command prints one object; `watch` prints an object for each change.
"""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, TextIO

from hpo.session.program import is_ours

# Standard output, and the callbacks that restore its descriptor; None without `--json`.
_RESULT: ContextVar[tuple[TextIO | None, contextlib.ExitStack] | None] = ContextVar("result", default=None)


@contextlib.contextmanager
def json_alone() -> Iterator[None]:
    """Redirect standard output to standard error inside the block; only `show_json` still prints to standard output."""
    out = sys.stdout
    with contextlib.ExitStack() as descriptor, contextlib.redirect_stdout(sys.stderr):
        if is_ours() and out is not None:
            # Child processes write to the descriptor, not to `sys.stdout`.
            out.flush()
            original = os.dup(out.fileno())
            descriptor.callback(os.close, original)
            descriptor.callback(os.dup2, original, out.fileno())
            os.dup2(2, out.fileno())
        token = _RESULT.set((out, descriptor))
        try:
            yield
        finally:
            _RESULT.reset(token)


def is_for_programs() -> bool:
    """Return whether `--json` was given."""
    return _RESULT.get() is not None


def show_json(values: Mapping[str, Any]) -> None:
    """Print one JSON object on one line if `--json` was given; else print nothing.

    The line is ASCII. NaN and infinities become null, and paths become strings.
    """
    from hpo.config.documents import json_line

    out, descriptor = _RESULT.get() or (None, contextlib.ExitStack())
    descriptor.close()
    if out is not None:
        print(json_line(values), file=out, flush=True)
