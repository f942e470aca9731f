"""What the trainer needs to know about a task; a task never sees the optimiser, and the trainer no labels."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from model.config.whole import Config

Item = dict[str, Any]
Forward = Callable[..., Any]  # the network, compiled or not


class Encoded(Protocol):
    """Examples as numbers, ready to be cut into batches."""

    @property
    def lengths(self) -> Tensor:
        """(examples,), tokens in each example; what batches by length go by."""

    def __len__(self) -> int: ...


class Task(Protocol):
    """Vocabulary, classes and everything else that is learned from the training part before training.

    `Any` stands for the task's own kind of Encoded and of batch: the trainer only hands them on.
    """

    metric_names: ClassVar[tuple[str, ...]]  # what `evaluate` gives, `loss` among them
    encoded_type: ClassVar[type]  # what `encode` gives: a dataclass of tensors and JSON-able values

    @classmethod
    def learn(cls, config: Config[Any, Any], items: Sequence[Item], train: Sequence[int]) -> Self:
        """The task of these examples, its vocabulary from the positions `train` only."""

    def build(self, config: Config[Any, Any]) -> nn.Module:
        """A network with fresh weights, drawn from torch's random numbers."""

    def encode(self, items: Sequence[Item]) -> Any:
        """Examples as numbers."""

    def batch(self, encoded: Any, indices: Tensor, device: torch.device) -> Any:
        """The examples at `indices` (batch,) as padded tensors on `device`."""

    def count(self, batch: Any) -> int:
        """How many predictions the batch asks for: what the sum of losses is divided by."""

    def loss(self, network: Forward, batch: Any, label_smoothing: float) -> Tensor:
        """Sum over the batch's predictions of the cross-entropy in nats; a scalar with a gradient."""

    def evaluate(self, network: nn.Module, encoded: Any, batch_size: int, device: torch.device) -> dict[str, float]:
        """Every metric over all examples; the network is in evaluation mode, without gradients."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able values."""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """What `to_dict` gave."""
