"""What a command prints for programs: with `--json` one JSON object on standard output, and nothing beside it."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, TextIO

from hpo.session.program import is_ours

# Standard output, and what puts its descriptor back; None without `--json`.
_RESULT: ContextVar[tuple[TextIO | None, contextlib.ExitStack] | None] = ContextVar("result", default=None)


@contextlib.contextmanager
def json_alone() -> Iterator[None]:
    """Send everything that is printed to standard error while this is entered, except what `show_json` prints."""
    out = sys.stdout
    with contextlib.ExitStack() as descriptor, contextlib.redirect_stdout(sys.stderr):
        if is_ours() and out is not None:
            # What a child prints, such as one of an objective's, does not go through `sys.stdout`.
            out.flush()
            kept = os.dup(out.fileno())
            descriptor.callback(os.close, kept)
            descriptor.callback(os.dup2, kept, out.fileno())
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
    """With `--json`, print one JSON object on a line, in ASCII; NaN and infinities as null, paths as text."""
    from hpo.config.documents import json_line

    out, descriptor = _RESULT.get() or (None, contextlib.ExitStack())
    descriptor.close()
    if out is not None:
        print(json_line(values), file=out, flush=True)
