"""The roles of parameters; modules declare these roles for the optimizers and the parametrization."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from torch import Tensor, nn

Role = Literal["embedding", "input", "tied", "matrix", "head", "vector"]


@dataclass(frozen=True)
class Matrix:
    """A parameter that maps vectors to vectors inside a layer; embeddings, heads and biases are not matrices.

    A parameter may stack several maps of the same input, such as the maps to queries, keys and values.

    Attributes:
        weight: (rows, columns).
        sizes: the number of rows of each map in the parameter.
    """

    weight: Tensor
    sizes: tuple[int, ...]


@runtime_checkable
class HasMatrices(Protocol):
    """A module that declares its matrices."""

    def matrices(self) -> Iterable[Matrix]:
        """Return the matrices of this module, without the matrices of submodules that also declare matrices."""
        ...


class Head(nn.Module):
    """A module that maps a representation to logits.

    Attributes:
        scale: the number by which the logits are multiplied.
    """

    scale: float = 1.0

    def weights(self) -> Tensor:
        """Return the weights of the output layer, shape (logits, width)."""
        raise NotImplementedError

    @property
    def is_tied(self) -> bool:
        """Whether the head uses the weights of the embedding."""
        return False


class LinearHead(nn.Linear, Head):
    """A linear layer to logits, (..., width) -> (..., logits)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        return super().forward(x if self.scale == 1.0 else x * self.scale)

    def weights(self) -> Tensor:
        """Return the weights of the output layer, shape (logits, width)."""
        return self.weight


def matrices_of(network: nn.Module) -> Iterator[Matrix]:
    """Yield every declared matrix of a network, in the order of the modules."""
    for module in network.modules():
        if isinstance(module, HasMatrices):
            yield from module.matrices()


def is_vector(parameter: Tensor) -> bool:
    """Return whether a parameter is a vector, which means that its shape is (n,) or (n, 1, ..., 1)."""
    return parameter.numel() == len(parameter)
