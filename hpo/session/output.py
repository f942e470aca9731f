"""The standard output of the command, whose faults carry its name."""

import io
from typing import Any, TextIO

from hpo.errors import OUTPUT


class _Output(io.FileIO):
    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            error.filename = OUTPUT
            raise


def named(stream: TextIO) -> TextIO:
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
