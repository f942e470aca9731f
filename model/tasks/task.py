"""The interface of tasks for the trainer; a task knows no optimizer, and the trainer knows no labels."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from model.config.whole import Config
from model.tasks.cross_entropy import Loss

Item = dict[str, Any]
Forward = Callable[..., Any]  # the network, compiled or not


class Encoded(Protocol):
    """Examples as numbers, from which batches are made."""

    @property
    def lengths(self) -> Tensor:
        """(examples,), tokens in each example; batches by length sort by it."""

    def __len__(self) -> int: ...


class Task(Protocol):
    """The vocabulary, the classes, and all else that is learned from the training split before training.

    `Any` stands for the task's own types of encoded examples and batches, which the trainer only passes on.

    Attributes:
        metric_names: the names that `metrics` returns, with `loss`. The first one chooses the best evaluation by
            default.
        encoded_type: the type that `encode` returns: a dataclass of tensors and JSON-able values.
    """

    metric_names: ClassVar[tuple[str, ...]]
    encoded_type: ClassVar[type]

    @classmethod
    def learn(cls, config: Config[Any, Any], items: Sequence[Item], train: Sequence[int]) -> Self:
        """Return the task of these examples, with a vocabulary from the positions `train` only."""

    def build(self, config: Config[Any, Any]) -> nn.Module:
        """Return a network with random weights from torch's generator."""

    def encode(self, items: Sequence[Item]) -> Any:
        """Return examples as numbers."""

    def batch(self, encoded: Any, indices: Tensor, device: torch.device, *, packed: bool = False) -> Any:
        """Return the examples at `indices` (batch,) as tensors on `device`, padded, or packed for a Transformer."""

    def count(self, encoded: Any, indices: Tensor) -> int:
        """Return the number of predictions of the batch of `indices`, which is the divisor of the summed losses."""

    def loss(self, network: Forward, batch: Any, label_smoothing: float, z_loss: float = 0.0) -> Loss:
        """Return the sums of the cross-entropy over the batch's predictions."""

    def measure(self, network: nn.Module, encoded: Any, indices: Tensor, device: torch.device) -> Any:
        """Return the measurements of the batch of `indices` (batch,) for `metrics`, in a form that can be pickled.

        The network must be in evaluation mode, without gradients.
        """

    def metrics(self, encoded: Any, measured: Sequence[Any]) -> dict[str, float]:
        """Return every metric over all examples, from the measurements of each batch.

        The batches must hold each position of `encoded` once. How they are cut changes only the last digits.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values that `from_dict` reads back."""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Read the dict of `to_dict`."""
