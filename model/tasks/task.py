"""The interface of a task to the trainer; a task never sees the optimizer, and the trainer never sees labels."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from model.config.whole import Config
from model.tasks.cross_entropy import Loss

Item = dict[str, Any]
Forward = Callable[..., Any]  # the network, compiled or not


class Encoded(Protocol):
    """Examples as numbers, ready to be cut into batches."""

    @property
    def lengths(self) -> Tensor:
        """(examples,), tokens in each example; batches by length sort by it."""

    def __len__(self) -> int: ...


class Task(Protocol):
    """Vocabulary, classes and everything else that is learned from the training part before training.

    `Any` stands for the task's own type of Encoded and of batch: the trainer only passes them on.
    """

    # What `metrics` gives, `loss` among them. By the first the best evaluation is chosen where no other is told.
    metric_names: ClassVar[tuple[str, ...]]
    encoded_type: ClassVar[type]  # what `encode` gives: a dataclass of tensors and JSON-able values

    @classmethod
    def learn(cls, config: Config[Any, Any], items: Sequence[Item], train: Sequence[int]) -> Self:
        """Return the task of these examples, with a vocabulary from the positions `train` only."""

    def build(self, config: Config[Any, Any]) -> nn.Module:
        """Return a network with fresh weights, drawn from torch's random numbers."""

    def encode(self, items: Sequence[Item]) -> Any:
        """Return examples as numbers."""

    def batch(self, encoded: Any, indices: Tensor, device: torch.device, *, packed: bool = False) -> Any:
        """Return the examples at `indices` (batch,) as tensors on `device`, padded, or packed for a Transformer."""

    def count(self, encoded: Any, indices: Tensor) -> int:
        """Return how many predictions the batch of `indices` has: the divisor of the summed losses."""

    def loss(self, network: Forward, batch: Any, label_smoothing: float, z_loss: float = 0.0) -> Loss:
        """Return the sums of the cross-entropy over the batch's predictions."""

    def measure(self, network: nn.Module, encoded: Any, indices: Tensor, device: torch.device) -> Any:
        """Return what `metrics` needs to know of the batch of `indices` (batch,), which can be sent to other processes.

        The network is in evaluation mode, without gradients.
        """

    def metrics(self, encoded: Any, measured: Sequence[Any]) -> dict[str, float]:
        """Return every metric over all examples, from what was `measured` of each batch.

        The batches hold each position of `encoded` once, and do not change the metrics but for their last digits.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values that `from_dict` reads back."""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Read what `to_dict` returned."""
