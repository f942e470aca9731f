"""Isolates a user's code: restores process state that the code changes, and ends processes that the code forks."""

import contextlib
import decimal
import functools
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

# Signals that end a program.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A timer that expires sends a signal, which ends a program that has no handler for it.
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
# Settings of torch: the getter and the setter of each.
_TORCH_SETTINGS = (
    ("get_default_dtype", "set_default_dtype"),
    ("get_num_threads", "set_num_threads"),
    ("is_grad_enabled", "set_grad_enabled"),
    ("get_deterministic_debug_mode", "set_deterministic_debug_mode"),
)
# Settings of Python and NumPy: the getter and the setter of each.
_PYTHON_SETTINGS: Sequence[tuple[Callable[[], Any], Callable[[Any], Any]]] = (
    (np.geterr, lambda before: np.seterr(**before)),
    (np.get_printoptions, lambda before: np.set_printoptions(**before)),
    (gc.isenabled, lambda before: gc.enable() if before else gc.disable()),
    (lambda: decimal.getcontext().copy(), decimal.setcontext),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (sys.getrecursionlimit, sys.setrecursionlimit),
)


class Isolation:
    """Keeps the working directory, umask, signal handlers and alarms of a user's code separate from the toolkit's.

    The user's code runs in steps, each within `enter`. Between the steps, the toolkit's state is active, and the user's
    alarms are paused. If the toolkit has no handler for a signal, such as SIGTERM in a training process, the handler of
    the user's code stays active between the steps. If a program that calls the toolkit has set an alarm, the alarm is
    restored with its remaining time.

    Attributes:
        secrets: values to redact in errors, by name.
    """

    def __init__(self, secrets: Secrets) -> None:
        self.secrets = secrets
        self._process = os.getpid()
        try:
            self._outside = self._inside = Path.cwd()
        except FileNotFoundError as error:
            raise MachineError(
                "the working directory was deleted; create it again, or change to another directory"
            ) from error
        # The only way to read the umask is to set another one.
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._handlers: dict[int, Any] = {}
        self._timers: dict[int, tuple[float, float]] = {}

    @contextlib.contextmanager
    def enter(self) -> Iterator[None]:
        """Activate the state of the user's code within the block, and restore the toolkit's state afterwards."""
        umask, handlers = os.umask(self._umask), _handlers()
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
                # The user's code has forked, and this is the new process. Only the original process may report results.
                self._end_fork(sys.exception())
            self._stop_timers(timers, time.monotonic() - entered)
            try:
                self._inside = Path.cwd()
            except FileNotFoundError:
                self._inside = self._outside
            os.chdir(self._outside)
            self._umask = os.umask(umask)
            self._handlers = {number: own for number, own in _handlers().items() if own is not handlers[number]}
            # Restore handlers last, because one of our handlers may raise an exception.
            _set_handlers({number: handlers[number] for number in self._handlers if callable(handlers[number])})

    def _stop_timers(self, before: Mapping[int, tuple[float, float]], seconds: float) -> None:
        """Stop and store the timers that the user's code has set, and restart the calling program's alarm.

        Args:
            before: each timer's remaining seconds and interval at the time when the user's code was entered.
            seconds: the seconds since that time. The restarted alarm has this much less time left.
        """
        self._timers = {}
        for timer, (left, interval) in before.items():
            if not left:
                own = signal.setitimer(timer, 0)
                self._timers |= {timer: own} if own[0] else {}
            elif timer == signal.ITIMER_REAL and left > seconds:
                signal.setitimer(timer, left - seconds, interval)

    def _end_fork(self, error: BaseException | None) -> None:
        """End this process, which the user's code forked. Print the error as Python does, but skip clean-up code."""
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
def isolated_state(seed: int, threads: int) -> Iterator[None]:
    """Seed the random generators of Python, NumPy and torch, and set the number of threads of numerical libraries.

    The last digits of a score depend on the number of threads. So this number must be the same in all processes, such
    as those of `hpo search` and `hpo reproduce`. At the end of the `with` block, global settings of Python, NumPy and
    torch get the values from before the block. If torch is not imported before the block, leave torch alone.
    """
    torch = sys.modules.get("torch")
    variables, filters, handlers, zone = dict(os.environ), warnings.filters[:], _handlers(), time.tzname
    # Ray's workers begin with this variable; libraries that are loaded already do not read it again.
    is_set = os.environ.get("OMP_NUM_THREADS") == str(threads)
    of_torch = [(getattr(torch, get), getattr(torch, put)) for get, put in _TORCH_SETTINGS if torch is not None]
    settings = [(get, put, get()) for get, put in (*_PYTHON_SETTINGS, *of_torch)]
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch is not None:
        torch.manual_seed(seed % 2**63)
        torch.set_num_threads(threads)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        with contextlib.nullcontext() if is_set else _thread_pools(len(sys.modules)).limit(limits=threads):
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
        for get, put, before in settings:
            if get() != before:
                put(before)
        # Restore handlers last, because one of our handlers may raise an exception.
        _set_handlers(handlers)


@functools.lru_cache(maxsize=1)
def _thread_pools(num_modules: int) -> Any:
    """Return a `ThreadpoolController`, which limits the threads of the numerical libraries that are loaded now.

    Finding these libraries takes a millisecond. So the result is cached until `num_modules`, the number of imported
    modules, changes.
    """
    del num_modules
    from threadpoolctl import ThreadpoolController  # here: it takes a while to load

    return ThreadpoolController()


def _handlers() -> dict[int, Any]:
    """Return the handler of each signal in _SIGNALS; in a thread that may not set handlers, return an empty dict."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in _SIGNALS}


def _set_handlers(wanted: Mapping[int, Any]) -> None:
    """Set the signal handlers in `wanted`, a dict from signal to handler.

    If a handler in `wanted` is None, skip this signal. None stands for a handler from outside Python.
    """
    for number, current in _handlers().items() if wanted else ():
        if (handler := wanted.get(number)) is not None and handler is not current:
            signal.signal(number, handler)
