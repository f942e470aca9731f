"""Contains the side effects of a user's code on its process while ours runs, and forks that return."""

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpo.config.sealing import Secrets, excerpt
from hpo.errors import MachineError

# By which a program is ended.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class OwnPlace:
    """Keeps a user's working directory, umask and handlers of signals separate from ours.

    A signal of which we take no notice, as of SIGTERM in a training process, is left to the code between its steps too.
    `secrets` are hidden in the errors of the code.

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
        # It cannot be read otherwise.
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._handlers: dict[int, Any] = {}

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Change to what the code had when it last left, and afterwards back."""
        umask, takers = os.umask(self._umask), handlers()
        try:
            if self._inside != self._outside:
                os.chdir(self._inside)
            set_handlers(self._handlers)
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
            self._umask = os.umask(umask)
            self._handlers = {number: taker for number, taker in handlers().items() if taker is not takers[number]}
            # Last, because a handler of ours may raise.
            set_handlers({number: takers[number] for number in self._handlers if callable(takers[number])})

    def _leave(self, error: BaseException | None) -> None:
        """End a forked process as Python would, but without the clean-up that belongs to its parent.

        It is never the process in which the toolkit was called, but a copy that the user's code made of it.
        """
        code = 0
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            sys.stderr.write(excerpt("".join(traceback.format_exception(error)), self.secrets, has_lines=True))
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def handlers() -> dict[int, Any]:
    """Return what takes each of the signals that end a program; empty outside of the main thread, which sets it."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in _SIGNALS}


def set_handlers(wanted: Mapping[int, Any]) -> None:
    """Set what `handlers` returned, where it is another now; one that was not set by Python (None) cannot be."""
    for number, now in handlers().items() if wanted else ():
        if (taker := wanted.get(number)) is not None and taker is not now:
            signal.signal(number, taker)
