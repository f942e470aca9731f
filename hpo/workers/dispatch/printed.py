"""Records the output of tasks, and limits how often messages about a running task include the output."""

import contextlib
import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

SECONDS_BETWEEN_LOGS = 5.0
# How many characters to keep of a task's output, or bytes if it is in a file; the last ones are kept.
MOST_CHARACTERS = 1 << 18


class LogPace:
    """Limits messages with the output of a running task to one message every `SECONDS_BETWEEN_LOGS` seconds."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SECONDS_BETWEEN_LOGS

    def is_due(self) -> bool:
        """Return whether the next message must contain the task's output so far."""
        if (now := time.monotonic()) < self._next:
            return False
        self._next = now + SECONDS_BETWEEN_LOGS
        return True


class Echo:
    """Keeps a copy of the text that a task's Python code writes to standard output and standard error."""

    def __init__(self) -> None:
        self._streams: tuple[Any, Any] = _Echoed(sys.stdout, self), _Echoed(sys.stderr, self)
        self._parts: list[str] = []
        self._size = 0

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Within the `with` block, copy standard output and standard error to this object.

        If the task replaces `sys.stdout` or `sys.stderr` in a block, the next block begins with these replacements.
        """
        outside = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = self._streams
        try:
            yield
        finally:
            self._streams = sys.stdout, sys.stderr
            sys.stdout, sys.stderr = outside

    def keep(self, text: str) -> None:
        """Add a piece of output. If the output is long, drop its beginning."""
        self._parts.append(text)
        self._size += len(text)
        if self._size > 2 * MOST_CHARACTERS:
            self._parts = [self.text()]
            self._size = len(self._parts[0])

    def text(self) -> str:
        """Return the output; if it is long, only its last characters."""
        return "".join(self._parts)[-MOST_CHARACTERS:]


class _Echoed:
    """A stream that passes text on to another stream, and copies the text to an `Echo`."""

    def __init__(self, stream: TextIO, echo: Echo) -> None:
        self._stream = stream
        self._echo = echo

    def write(self, text: str) -> int:
        self._echo.keep(text)
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class PrintedFile:
    """The output of a process and its children, stored in an unnamed file. The file is read when a task ends."""

    def __init__(self) -> None:
        self._descriptor, path = tempfile.mkstemp(prefix="hpo-printed-")
        Path(path).unlink()
        # Open the file for appending, because several processes write to it and it is emptied between tasks.
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | os.O_APPEND)

    def fileno(self) -> int:
        """Return the file descriptor for the output."""
        return self._descriptor

    def empty(self) -> None:
        """Delete the output so far."""
        os.ftruncate(self._descriptor, 0)

    def text(self) -> str:
        """Return the output. If it is long, return only its end, after a line with the number of omitted bytes."""
        size = os.fstat(self._descriptor).st_size
        left_out = max(0, size - MOST_CHARACTERS)
        text = os.pread(self._descriptor, size - left_out, left_out).decode(errors="replace")
        return f"[{left_out:,} earlier bytes are left out]\n{text}" if left_out else text

    def close(self) -> None:
        """Delete the file that contains the output."""
        os.close(self._descriptor)
