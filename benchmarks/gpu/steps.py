"""One training step of the same language model: the trainer's, torch.nn's, and a minimal loop's, on one batch."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.shared.steps import Size, Step, TorchNetwork, configure, learn, make_items, new_update
from model.config.whole import Config
from model.data.batches import resident
from model.training.numerics import PRECISIONS
from model.training.speed import operations_per_token
from model.training.update import Losses


@dataclass(frozen=True)
class Sides:
    """The three sides of one shape.

    Attributes:
        tokens: predicted in a step.
        operations: per token, counted of our network for all sides.
    """

    size: Size
    config: Config[Any, Any]
    task: Any
    data: Any
    device: torch.device
    tokens: int
    operations: float

    def ours(self, compiled: bool = False) -> Step:
        """Return the trainer's step, with gathering the batch and checking the loss."""
        training = self.config.training.model_copy(update={"compile": compiled})
        update = new_update(self.task, self.config.model_copy(update={"training": training}), self.data, self.device)
        indices, losses = torch.arange(self.size.batch), Losses(0, self.device)
        return lambda: losses.add(*update([indices], lr=1e-4))

    def torch_nn(self) -> Step:
        """Return the step of torch's own Transformer layers."""
        return self._plain(TorchNetwork("decoder", self.size))

    def minimal(self, compiled: bool = False) -> Step:
        """Return the step of the blocks below."""
        return self._plain(MinimalNetwork(self.size), compiled)

    def _plain(self, network: nn.Module, compiled: bool = False) -> Step:
        """Return a step of forward, cross-entropy, backward and fused AdamW, on the trainer's batch."""
        network.to(self.device)
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
        batch = self.task.batch(self.data, torch.arange(self.size.batch), self.device)
        dtype = PRECISIONS[self.config.training.precision]
        forward = torch.compile(network) if compiled else network

        def step() -> None:
            with torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not torch.float32):
                logits = forward(batch.inputs)
                loss = functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        return step


def language_model(size: Size, device: torch.device, precision: str) -> Sides:
    """Return the sides of a shape, on generated text."""
    config = configure("decoder", size, training={"precision": precision, "device": device.type})
    task = learn("decoder", config, size)
    data = resident(task.encode(make_items("decoder", size)), device)
    with torch.device("meta"):
        operations = operations_per_token(task.build(config), size.time)
    # The peers' vocabularies have the special tokens, too.
    own = replace(size, symbols=len(task.vocabulary))
    return Sides(own, config, task, data, device, task.count(data, torch.arange(size.batch)), operations)


class Block(nn.Module):
    """Attention and feed-forward, each with its norm first and a residual sum.

    Source: as written in Karpathy's nanoGPT, model.py, with the ReLU and the biases of the other sides.
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.projection, self.output = nn.Linear(size.width, 3 * size.width), nn.Linear(size.width, size.width)
        self.widen, self.narrow = nn.Linear(size.width, 4 * size.width), nn.Linear(4 * size.width, size.width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, width) -> the same."""
        parts = self.projection(self.attention_norm(x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.relu(self.widen(self.feed_forward_norm(x))))


class MinimalNetwork(nn.Module):
    """Embeddings of tokens and positions, blocks, norm, linear layer over the vocabulary."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(size.symbols, size.width), nn.Embedding(size.time, size.width)
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.layers)))
        self.norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, size.symbols, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, time) -> (batch, time, vocabulary)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions(places))))
