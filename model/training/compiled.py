"""Compilation by torch: the forward pass of evaluations, and the folder of compiled code."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from model.config.training import TrainingConfig

NAME, HEADERS = "TORCHINDUCTOR_CACHE_DIR", "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"


class CompiledForward:
    """The forward pass of a network, which torch compiles on first use, for any batch size and length.

    Inside `in_use` it replaces the network's own forward pass, so a task need not know of it, and weights keep their
    names. `begin` and `advance` of decoding are not compiled, because their state grows with every token.
    """

    def __init__(self, network: nn.Module, config: TrainingConfig) -> None:
        """Prepare the compilation of a network; without `config.compile`, `in_use` has no effect."""
        self.network = network
        self.compiled: Callable[..., Any] | None = None
        if config.compile:
            own_forward = network.forward

            # A separate function, because torch compiles a function for eight shapes only, and training has its own.
            def forward(*arguments: Any, **named: Any) -> Any:
                return own_forward(*arguments, **named)

            # Nearly every batch by length has another shape, so compile for any shape.
            self.compiled = torch.compile(forward, dynamic=True)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Replace the network's forward pass by the compiled one inside the context."""
        if self.compiled is None:
            yield
            return
        self.network.forward = self.compiled
        try:
            yield
        finally:
            # Remove the attribute of the object, so that the method of the class applies again.
            del self.network.forward


def use_own_compile_cache() -> None:
    """Give torch.compile a folder for this process alone, below the folder of TORCHINDUCTOR_CACHE_DIR.

    torch 2.13 lets the linker write a library in place, and treats an existing one as complete. So after a killed
    compilation, each later training with the same folder fails ("file too short"), or dies of SIGBUS. The folder is
    removed when the process ends normally. Precompiled headers are turned off, because torch shares them in another
    folder, with the same problem. torch reads these settings when a process first compiles.
    """
    os.environ[NAME] = _own_folder(os.getpid())
    os.environ[HEADERS] = "0"


@cache
def _own_folder(process: int) -> str:
    """Return the folder of this process; a forked process has another one."""
    shared = os.environ.get(NAME)
    if shared is not None:
        Path(shared).mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f"torchinductor_{process}_", dir=shared)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
