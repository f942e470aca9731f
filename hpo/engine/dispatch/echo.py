"""What a task prints in this process: shown as it is printed, and kept."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO

MOST_CHARACTERS = 1 << 18  # of one task; what it printed last


class Echo:
    """Keeps what Python code writes to standard output and standard error, which shows it all the same.

    What programs and libraries in C write themselves is only shown.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Keep what is printed inside."""
        with (
            contextlib.redirect_stdout(_Echoed(sys.stdout, self)),
            contextlib.redirect_stderr(_Echoed(sys.stderr, self)),
        ):
            yield

    def keep(self, text: str) -> None:
        """Add a piece of text; of a long output the end is kept."""
        self._parts.append(text)
        self._size += len(text)
        if self._size > 2 * MOST_CHARACTERS:
            self._parts = [self.text()]
            self._size = len(self._parts[0])

    def text(self) -> str:
        """Return what was printed, of a long output the end."""
        return "".join(self._parts)[-MOST_CHARACTERS:]


class _Echoed:
    """A stream that is written through, and its echo."""

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
