"""The compiled forward pass of a network in its evaluations."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from model.config.training import TrainingConfig


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
            def forward(*given: Any) -> Any:
                return plain(*given)

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
