"""What torch compiles: the forward pass of a network in its evaluations, and the folder in which compiled code lies."""

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
    """A network's forward pass, which torch compiles at its first use, for any batch size and length.

    It takes the place of the network's own while it is used, so that a task need not know of it; names of weights stay
    what they are. What a network has besides, `begin` and `advance` of decoding, is not compiled: the state grows with
    every token.
    """

    def __init__(self, network: nn.Module, config: TrainingConfig) -> None:
        """Take the network that is evaluated; without `config.compile` its own forward pass stays in use."""
        self.network = network
        self.compiled: Callable[..., Any] | None = None
        if config.compile:
            plain = network.forward

            # A function of its own: torch compiles one for eight shapes, and those of training would count.
            def forward(*given: Any, **named: Any) -> Any:
                return plain(*given, **named)

            # Batches by length are of nearly as many shapes as there are batches.
            self.compiled = torch.compile(forward, dynamic=True)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let calls of the network take the compiled forward pass inside the context."""
        if self.compiled is None:
            yield
            return
        self.network.forward = self.compiled
        try:
            yield
        finally:
            # Of this object alone; the class's own is seen again.
            del self.network.forward


def use_own_compile_cache() -> None:
    """Give torch.compile a folder of this process alone, below the one that TORCHINDUCTOR_CACHE_DIR names.

    torch 2.13 lets the linker write a library where it is looked for, and takes one that is there for complete. After a
    killed compilation each later training that shares the folder fails ("file too short"), or dies of SIGBUS.
    The folder is removed when the process ends by itself. Headers are not compiled before: torch shares them in another
    folder, where a killed compiler leaves a part of one, too. torch reads that when it first compiles in a process.
    """
    os.environ[NAME] = _own_folder(os.getpid())
    os.environ[HEADERS] = "0"


@cache
def _own_folder(process: int) -> str:
    """Return the folder of this process; one that was forked from it has another."""
    shared = os.environ.get(NAME)
    if shared is not None:
        Path(shared).mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f"torchinductor_{process}_", dir=shared)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
