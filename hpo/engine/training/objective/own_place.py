"""Contains the side effects of a user's code on its process: its working directory, and forks that return."""

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from hpo.config.sealing import Secrets, told
from hpo.errors import MachineError


class OwnPlace:
    """Keeps a user's working directory separate from ours; `secrets` are hidden in the errors of the code.

    Raises:
        MachineError: the working directory no longer exists.
    """

    def __init__(self, secrets: Secrets) -> None:
        self.secrets = secrets
        self._process = os.getpid()
        try:
            self._outside = self._inside = Path.cwd()
        except FileNotFoundError as error:
            raise MachineError("working directory: it was deleted; make it again, or change to another") from error

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Change to the code's last working directory, and afterwards back."""
        if self._inside != self._outside:
            os.chdir(self._inside)
        try:
            yield
        finally:
            if os.getpid() != self._process:
                # The code forked: only the original process may report results.
                self._leave(sys.exception())
            try:
                self._inside = Path.cwd()
            except FileNotFoundError:
                # It was deleted.
                self._inside = self._outside
            os.chdir(self._outside)

    def _leave(self, error: BaseException | None) -> None:
        """End a forked process as Python would, but without the clean-up that belongs to its parent.

        It is never the process in which the toolkit was called, but a copy that the user's code made of it.
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
