"""Keeps to itself what a user's code does to its process: its working directory, and copies of it that come back."""

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from hpo.config.sealing import Secrets, told
from hpo.errors import MachineError


class OwnPlace:
    """Where a user's code runs: what it changes about its working directory holds for its own next steps alone.

    Args:
        secrets: what an error of it must not show.

    Raises:
        MachineError: there is no working directory any more.
    """

    def __init__(self, secrets: Secrets) -> None:
        self.secrets = secrets
        self._process = os.getpid()
        try:
            self._outside = self._inside = Path.cwd()
        except FileNotFoundError as error:
            raise MachineError("working directory: it was deleted; make it again, or go to another") from error

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be where that code was last, and afterwards where it began."""
        if self._inside != self._outside:
            os.chdir(self._inside)
        try:
            yield
        finally:
            if os.getpid() != self._process:
                # A copy of this process that the code made: only the one that was given the work speaks for it.
                self._leave(sys.exception())
            try:
                self._inside = Path.cwd()
            except FileNotFoundError:
                # It was deleted.
                self._inside = self._outside
            os.chdir(self._outside)

    def _leave(self, error: BaseException | None) -> None:
        """End a forked process as Python itself would, but without what belongs to the process that it is a copy of.

        By `os._exit`, and rightly: it is never the process in which somebody called the toolkit, but a copy of it that
        the user's code made and let come back. It would go on with that one's record, tracker and study.
        """
        code = 0
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            sys.stderr.write(told("".join(traceback.format_exception(error)), self.secrets, has_lines=True))
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
