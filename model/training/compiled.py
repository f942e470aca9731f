"""Compilation by torch: compiles the forward pass for evaluations, and sets the folder for compiled code."""

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
    """A network's forward pass; torch compiles the pass at its first use, for any batch size and length.

    Inside `in_use`, the compiled forward pass replaces the forward pass of the network. So tasks need no change, and
    weights keep their names. The methods for decoding, `begin` and `advance`, are not compiled, because their state
    grows with every token.
    """

    def __init__(self, network: nn.Module, config: TrainingConfig) -> None:
        """Prepare the compilation of a network; without `config.compile`, `in_use` has no effect."""
        self.network = network
        self.compiled: Callable[..., Any] | None = None
        if config.compile:
            own_forward = network.forward

            # torch compiles a function for at most eight shapes, so use a separate function from that of training.
            def forward(*arguments: Any, **named: Any) -> Any:
                return own_forward(*arguments, **named)

            # Compile for any shape, because nearly every batch of similar lengths has a different shape.
            self.compiled = torch.compile(forward, dynamic=True)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside the context, replace the network's forward pass by the compiled forward pass."""
        if self.compiled is None:
            yield
            return
        self.network.forward = self.compiled
        try:
            yield
        finally:
            # Delete the object's attribute, so that the method of its class is in use again.
            del self.network.forward


def use_own_compile_cache() -> None:
    """Give torch.compile a folder that only this process uses, and turn off precompiled headers.

    The folder is inside TORCHINDUCTOR_CACHE_DIR, by default inside the folder for temporary files. It is removed when
    the process ends normally. torch reads both settings at its first compilation, so call this function earlier.

    torch 2.13 treats every existing library as complete, even if its compilation was killed. Later trainings with the
    same folder would then fail ("file too short"), or die of SIGBUS. Precompiled headers have the same problem. They
    are in another folder, which all processes share.
    """
    os.environ[NAME] = _own_folder(os.getpid())
    os.environ[HEADERS] = "0"


@cache
def _own_folder(process: int) -> str:
    """Return the folder of the process with this id; the first call with an id creates the folder.

    A forked process has a new id, so it does not use the folder of its parent.
    """
    shared = os.environ.get(NAME)
    if shared is not None:
        Path(shared).mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f"torchinductor_{process}_", dir=shared)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
