"""The interface between learning tasks and the trainer: tasks know no optimizer, and the trainer knows no labels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from model.config.whole import Config
from model.tasks.by_example import ByExample
from model.tasks.cross_entropy import Loss

Item = dict[str, Any]
Forward = Callable[..., Any]  # the network, compiled or not


class Encoded(Protocol):
    """Encoded examples: the numbers from which batches are made."""

    @property
    def lengths(self) -> Tensor:
        """The number of tokens in each example, (examples,); `batches_by_length` uses these numbers."""

    def __len__(self) -> int: ...


class Task(Protocol):
    """A learning task; stores what is learned from the data before training, such as a vocabulary.

    `Any` stands for encoded examples and batches. The types of both may differ between tasks, because the trainer only
    passes them on.

    Attributes:
        metric_names: the names of the metrics that `metrics` returns, including `loss`. If the study's metric is a
            cost, such as the number of parameters, the evaluations of a training are compared by the first of
            `metric_names` instead.
        encoded_type: the type that `encode` returns: a dataclass of tensors and JSON-able values.
    """

    metric_names: ClassVar[tuple[str, ...]]
    encoded_type: ClassVar[type]

    @classmethod
    def learn(cls, config: Config[Any, Any], items: Sequence[Item], train: Sequence[int]) -> Self:
        """Return an instance of this class for `items`.

        The vocabulary comes only from the items at the positions `train`.

        Raises:
            DataError: these items cannot be used, for example because no token occurs `data.min_count` times.
        """

    def build(self, config: Config[Any, Any]) -> nn.Module:
        """Return a network with initial weights from torch's random generator."""

    def encode(self, items: Sequence[Item]) -> Any:
        """Return examples as numbers."""

    def batch(self, encoded: Any, indices: Tensor, device: torch.device, *, packed: bool = False) -> Any:
        """Return the examples at `indices` (batch,) as tensors on `device`, padded or (Transformers only) packed."""

    def count(self, encoded: Any, indices: Tensor) -> int:
        """Return the number of predictions for the examples at `indices`.

        An update divides its summed loss by its number of predictions.
        """

    def loss(self, network: Forward, batch: Any, label_smoothing: float, z_loss: float = 0.0) -> Loss:
        """Return the summed loss of all predictions of a batch."""

    def measure(self, network: nn.Module, encoded: Any, indices: Tensor, device: torch.device) -> Any:
        """Return the measurements of the examples at `indices` (batch,), from which `metrics` computes the metrics.

        The result can be pickled. The network must be in evaluation mode, and gradients must be off.
        """

    def metrics(self, encoded: Any, measured: Sequence[Any]) -> dict[str, float]:
        """Return every metric over all examples, from the measurements of each batch.

        Together, the batches must hold each position of `encoded` once. The division into batches changes only the last
        digits of the metrics.
        """

    def by_example(
        self, items: Sequence[Item], encoded: Any, measured: Sequence[Any], order: Tensor
    ) -> Mapping[str, ByExample | str]:
        """Return the contribution of each example to each metric, computed from the measurements of each batch.

        The result maps the name of a metric to the contributions, or to a text with the reason why there are none.
        A metric without contributions may also be left out.

        `encoded` is the result of `encode(items)`. `order` (len(encoded),) has the indices into `encoded` in the order
        of the batches.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return this object as a JSON-able dict; `from_dict` is the inverse."""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Build an instance of this class from a dict that `to_dict` returned."""
