"""The interface between tasks and the trainer: a task knows no optimizer, and the trainer knows no labels."""

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
        """The number of tokens in each example, (examples,), for batches of similar length."""

    def __len__(self) -> int: ...


class Task(Protocol):
    """The vocabulary, the classes, and everything else that is learned from the data before training.

    `Any` stands for the types of encoded examples and batches, which differ between tasks; the trainer only passes them
    on.

    Attributes:
        metric_names: the names of the metrics that `metrics` returns, including `loss`. By default, the first metric
            chooses the best evaluation.
        encoded_type: the type that `encode` returns: a dataclass of tensors and JSON-able values.
    """

    metric_names: ClassVar[tuple[str, ...]]
    encoded_type: ClassVar[type]

    @classmethod
    def learn(cls, config: Config[Any, Any], items: Sequence[Item], train: Sequence[int]) -> Self:
        """Return the task for `items`; its vocabulary comes only from the items at the positions `train`."""

    def build(self, config: Config[Any, Any]) -> nn.Module:
        """Return a network with random weights from torch's generator."""

    def encode(self, items: Sequence[Item]) -> Any:
        """Return examples as numbers."""

    def batch(self, encoded: Any, indices: Tensor, device: torch.device, *, packed: bool = False) -> Any:
        """Return the examples at `indices` (batch,) as tensors on `device`, padded or (Transformers only) packed."""

    def count(self, encoded: Any, indices: Tensor) -> int:
        """Return the number of predictions for the examples at `indices`, by which the summed loss is divided."""

    def loss(self, network: Forward, batch: Any, label_smoothing: float, z_loss: float = 0.0) -> Loss:
        """Return the loss, summed over the batch's predictions."""

    def measure(self, network: nn.Module, encoded: Any, indices: Tensor, device: torch.device) -> Any:
        """Return the measurements that `metrics` needs of the examples at `indices` (batch,); they can be pickled.

        The network must be in evaluation mode, and gradients must be off.
        """

    def metrics(self, encoded: Any, measured: Sequence[Any]) -> dict[str, float]:
        """Return every metric over all examples, from the measurements of each batch.

        The batches must hold each position of `encoded` once. Another division into batches changes only the last
        digits of the metrics.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values that `from_dict` reads back."""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Rebuild the object from the result of `to_dict`."""
