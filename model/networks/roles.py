"""The roles of parameters: which of them are maps inside a layer, as modules declare it to the optimizers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor, nn


@dataclass(frozen=True)
class Matrix:
    """A parameter that maps vectors to vectors inside a layer: no embedding, no head, no bias.

    Attributes:
        weight: (rows, columns).
        sizes: the rows of each map, where several are stacked in one parameter, such as those to queries, keys and
            values.
        is_gated: whether it is two maps, of a gate and of what it lets through.
    """

    weight: Tensor
    sizes: tuple[int, ...]
    is_gated: bool = False


@runtime_checkable
class HasMatrices(Protocol):
    """A module that declares its matrices."""

    def matrices(self) -> Iterable[Matrix]:
        """Return the module's own matrices."""
        ...


def matrices_of(network: nn.Module) -> Iterator[Matrix]:
    """Yield every matrix that a module of the network declares, in the order of its parameters."""
    for module in network.modules():
        if isinstance(module, HasMatrices):
            yield from module.matrices()
