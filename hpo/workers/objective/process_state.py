"""Contains a user's code: what it changes of the whole process is put back, and a fork that returns ends."""

import contextlib
import decimal
import gc
import os
import random
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpo.config.secrets import Secrets, excerpt
from hpo.errors import MachineError

# By which a program is ended.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Each sends a signal that ends a program which does not take it.
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
# What reads each setting of torch, and what sets it.
_OF_TORCH = (
    ("get_default_dtype", "set_default_dtype"),
    ("get_num_threads", "set_num_threads"),
    ("is_grad_enabled", "set_grad_enabled"),
    ("get_deterministic_debug_mode", "set_deterministic_debug_mode"),
)
# The same of Python and NumPy.
_OF_PYTHON: Sequence[tuple[Callable[[], Any], Callable[[Any], Any]]] = (
    (np.geterr, lambda before: np.seterr(**before)),
    (np.get_printoptions, lambda before: np.set_printoptions(**before)),
    (gc.isenabled, lambda before: gc.enable() if before else gc.disable()),
    (lambda: decimal.getcontext().copy(), decimal.setcontext),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (sys.getrecursionlimit, sys.setrecursionlimit),
)


class Isolation:
    """Keeps a user's working directory, umask, handlers and alarms separate from ours; hides `secrets` in errors.

    A signal of which we take no notice, as of SIGTERM in a training process, is left to the code between its steps too.
    An alarm stands still between the steps. Where a program that calls us has set one, that goes on, and is put back.
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
        self._timers: dict[int, tuple[float, float]] = {}

    @contextlib.contextmanager
    def enter(self) -> Iterator[None]:
        """Change to what the code had when it last left, and afterwards back."""
        umask, takers = os.umask(self._umask), _handlers()
        timers, entered = {timer: signal.getitimer(timer) for timer in _TIMERS}, time.monotonic()
        try:
            for timer, (seconds, interval) in self._timers.items():
                signal.setitimer(timer, seconds, interval)
            if self._inside != self._outside:
                os.chdir(self._inside)
            _set_handlers(self._handlers)
            yield
        finally:
            if os.getpid() != self._process:
                # The code forked: only the original process may report results.
                self._leave(sys.exception())
            self._stop_timers(timers, time.monotonic() - entered)
            try:
                self._inside = Path.cwd()
            except FileNotFoundError:
                # It was deleted.
                self._inside = self._outside
            os.chdir(self._outside)
            self._umask = os.umask(umask)
            self._handlers = {number: taker for number, taker in _handlers().items() if taker is not takers[number]}
            # Last, because a handler of ours may raise.
            _set_handlers({number: takers[number] for number in self._handlers if callable(takers[number])})

    def _stop_timers(self, before: Mapping[int, tuple[float, float]], seconds: float) -> None:
        """Stop the code's timers, and put back what was set so many seconds before."""
        self._timers = {}
        for timer, (left, interval) in before.items():
            if not left:
                own = signal.setitimer(timer, 0)
                self._timers |= {timer: own} if own[0] else {}
            elif timer == signal.ITIMER_REAL and left > seconds:
                signal.setitimer(timer, left - seconds, interval)

    def _leave(self, error: BaseException | None) -> None:
        """End a process that the user's code has forked, as Python would, but without the clean-up of its parent."""
        code = 0
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            sys.stderr.write(excerpt("".join(traceback.format_exception(error)), self.secrets, has_lines=True))
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@contextlib.contextmanager
def isolated_state(seed: int) -> Iterator[None]:
    """Seed the global random numbers of Python, NumPy and torch; put back afterwards what was changed of the rest.

    What the user's modules set when they are imported stays, and torch takes part if they have imported it before.
    """
    torch = sys.modules.get("torch")
    variables, filters, takers, zone = dict(os.environ), warnings.filters[:], _handlers(), time.tzname
    of_torch = [(getattr(torch, read), getattr(torch, put_back)) for read, put_back in _OF_TORCH if torch is not None]
    settings = [(read, put_back, read()) for read, put_back in (*_OF_PYTHON, *of_torch)]
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch is not None:
        torch.manual_seed(seed % 2**63)
    try:
        yield
    finally:
        if os.environ != variables:
            for name in os.environ.keys() - variables.keys():
                del os.environ[name]
            os.environ.update(variables)
        if time.tzname != zone:
            time.tzset()
        if warnings.filters != filters:
            warnings.filters = filters
        for read, put_back, before in settings:
            if read() != before:
                put_back(before)
        # Last, because a handler of ours may raise.
        _set_handlers(takers)


def _handlers() -> dict[int, Any]:
    """Return what takes each of the signals that end a program; empty outside of the main thread, which sets it."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in _SIGNALS}


def _set_handlers(wanted: Mapping[int, Any]) -> None:
    """Set what `_handlers` returned, where it is another now; one that was not set by Python (None) cannot be."""
    for number, now in _handlers().items() if wanted else ():
        if (taker := wanted.get(number)) is not None and taker is not now:
            signal.signal(number, taker)
