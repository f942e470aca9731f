"""The optimizer Muon, for parameters that hold one matrix, or several stacked matrices."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from model.networks.roles import Matrix


class Muon(torch.optim.Muon):
    """torch's Muon with a separate step for each matrix that is stacked in a parameter.

    A step makes the momentum of a matrix orthogonal. A parameter may stack several matrices, such as the matrices for
    queries, keys and values, or for a gate and its input. A step on the whole parameter would make these matrices
    orthogonal to each other, and give them one common scale.

    Source: the separate steps for queries, keys and values are from Jordan et al. 2024, "Muon: an optimizer for hidden
    layers". The scale of a step is from Liu et al. 2025, "Muon is scalable for LLM training", section 2.2; with this
    scale, the steps are as large as the steps of adamw.
    """

    def __init__(
        self, matrices: Sequence[Matrix], lr: float, weight_decay: float, momentum: float, rates: Sequence[float]
    ) -> None:
        """Build the optimizer; the learning rate of matrix i is `lr` times the factor `rates[i]`."""
        # Each stacked matrix becomes a part: an nn.Parameter that shares memory with the rows of the original
        # parameter, so that a step on the part changes the original, too.
        self._stacks = [
            (matrix, [nn.Parameter(part) for part in _shares(matrix, matrix.weight.data)]) for matrix in matrices
        ]
        groups: dict[float, list[nn.Parameter]] = {}
        for (_, parts), rate in zip(self._stacks, rates, strict=True):
            groups.setdefault(rate, []).extend(parts)
        super().__init__(
            [{"params": parts, "rate": rate, "weight_decay": weight_decay / rate} for rate, parts in groups.items()],
            lr, weight_decay, momentum, nesterov=True, adjust_lr_fn="match_rms_adamw",
        )  # fmt: skip

    def share_gradients(self) -> None:
        """Split the gradient of each parameter into the gradients of the matrices that are stacked in the parameter.

        The method `step` calls this method.
        """
        for matrix, parts in self._stacks:
            gradient = matrix.weight.grad
            shares = [None] * len(parts) if gradient is None else _shares(matrix, gradient)
            for part, share in zip(parts, shares, strict=True):
                part.grad = share

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a separate step for each matrix, even if one parameter holds several matrices."""
        self.share_gradients()
        return super().step(closure)  # type: ignore[no-untyped-call]  # torch leaves `step` untyped

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the gradients of all parameters and of all stacked matrices."""
        for matrix, _ in self._stacks:
            matrix.weight.grad = None
        super().zero_grad(set_to_none)


def _shares(matrix: Matrix, rows: Tensor) -> list[Tensor]:
    """Split the rows of a parameter or its gradient into one view for each matrix that is stacked in the parameter."""
    return list(torch.split(rows, list(matrix.sizes)))
