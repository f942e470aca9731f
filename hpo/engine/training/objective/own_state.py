"""State of the whole process that a task may change: random numbers begin from its seed, the rest is put back."""

import decimal
import gc
import os
import random
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hpo.engine.training.objective.own_place import handlers, set_handlers

# By what sets each, what reads it.
_OF_TORCH = {
    "set_default_dtype": "get_default_dtype",
    "set_num_threads": "get_num_threads",
    "set_grad_enabled": "is_grad_enabled",
    "set_deterministic_debug_mode": "get_deterministic_debug_mode",
}


# Of Python and NumPy: what reads each, and what sets it.
_OF_PYTHON: Sequence[tuple[Callable[[], Any], Callable[[Any], Any]]] = (
    (np.geterr, lambda before: np.seterr(**before)),
    (np.get_printoptions, lambda before: np.set_printoptions(**before)),
    (gc.isenabled, lambda before: gc.enable() if before else gc.disable()),
    (lambda: decimal.getcontext().copy(), decimal.setcontext),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (sys.getrecursionlimit, sys.setrecursionlimit),
)


@contextmanager
def own_state(seed: int) -> Iterator[None]:
    """Seed the global random numbers of Python, NumPy and torch; put back afterwards what was changed of the rest.

    Enter it when the user's modules are imported: what these set for the whole process stays, and torch takes part if
    they have imported it.
    """
    torch = sys.modules.get("torch")
    variables, filters, takers, settings = dict(os.environ), warnings.filters[:], handlers(), _settings(torch)
    own, zone = [(put_back, read()) for read, put_back in _OF_PYTHON], time.tzname
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch is not None:
        torch.manual_seed(seed % 2**63)
    try:
        yield
    finally:
        _set_variables(variables)
        if time.tzname != zone:
            time.tzset()
        if warnings.filters != filters:
            warnings.filters = filters
        for put_back, before in own:
            put_back(before)
        for name, value in _settings(torch).items():
            if value != settings[name]:
                getattr(torch, name)(settings[name])
        # Last, because a handler of ours may raise.
        set_handlers(takers)


def _settings(torch: Any) -> dict[str, Any]:
    return {} if torch is None else {name: getattr(torch, reads)() for name, reads in _OF_TORCH.items()}


def _set_variables(variables: Mapping[str, str]) -> None:
    now = dict(os.environ)
    if now != variables:
        for name in now.keys() - variables.keys():
            del os.environ[name]
        os.environ.update(variables)
