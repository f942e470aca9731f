"""Runs `hpo` as `hpo.__main__` does, and ends it when standard input ends.

A program starts this module with a pipe as standard input. When that program ends, for whatever reason, the pipe
closes, and `hpo` ends too.
"""

import os
import signal
import sys
import threading

from hpo.cli.main import main


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    sys.exit(main())
