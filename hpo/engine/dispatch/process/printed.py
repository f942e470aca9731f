"""What a training process prints: kept in a file without a name while a task runs, and read at its end."""

import fcntl
import os
import tempfile
from pathlib import Path

_MOST_BYTES = 1 << 18  # of one task; what it printed last


class Printed:
    """Takes what a process and its children write to standard output and standard error."""

    def __init__(self) -> None:
        self._descriptor, path = tempfile.mkstemp(prefix="hpo-printed-")
        Path(path).unlink()
        # Several processes share the file's end, and it is emptied between tasks.
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | os.O_APPEND)

    def fileno(self) -> int:
        """Return the descriptor to write to."""
        return self._descriptor

    def empty(self) -> None:
        """Forget what was printed so far."""
        os.ftruncate(self._descriptor, 0)

    def text(self) -> str:
        """Return what was printed, of a long output the end, which begins with a line that says so."""
        size = os.fstat(self._descriptor).st_size
        left_out = max(0, size - _MOST_BYTES)
        text = os.pread(self._descriptor, size - left_out, left_out).decode(errors="replace")
        return f"[{left_out:,} bytes before are left out]\n{text}" if left_out else text

    def close(self) -> None:
        """Delete the file."""
        os.close(self._descriptor)
