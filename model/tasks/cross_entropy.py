"""The loss that every task trains by."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

NO_TARGET = -100  # the label of a position that is not predicted

# Logits that are computed at once: 256 MiB in float32, of which a backward pass holds three.
LARGEST_LOGITS = 2**26


class Loss(NamedTuple):
    """Sums over a batch's predictions, in nats, scalars; lower is better.

    Attributes:
        objective: what is minimised, with label smoothing and z-loss; it has a gradient.
        cross_entropy: without either, as it is reported; it has no gradient.
    """

    objective: Tensor
    cross_entropy: Tensor


def summed_cross_entropy(logits: Tensor, targets: Tensor, label_smoothing: float, z_loss: float) -> Loss:
    """Return the sum of the cross-entropies.

    Args:
        logits: (predictions, classes).
        targets: (predictions,), a class each, or NO_TARGET.
        label_smoothing: share of each target that is spread evenly over all classes.
        z_loss: times the square of log Z, Z the denominator of the softmax, is added to each: it keeps logits from
            drifting (Chowdhery et al. 2022, "PaLM", section 5).
    """
    loss = functional.cross_entropy(
        logits, targets, reduction="sum", ignore_index=NO_TARGET, label_smoothing=label_smoothing
    )
    if not (label_smoothing or z_loss):
        return Loss(loss, loss.detach())
    if z_loss:
        loss = loss + z_loss * torch.where(targets == NO_TARGET, 0.0, logits.logsumexp(dim=-1).square()).sum()
    with torch.no_grad():
        plain = functional.cross_entropy(logits, targets, reduction="sum", ignore_index=NO_TARGET)
    return Loss(loss, plain)


def token_loss(
    network: Callable[..., Any],
    inputs: tuple[Any, ...],
    targets: Tensor,
    classes: int,
    label_smoothing: float,
    z_loss: float,
) -> Loss:
    """Return the sums of the cross-entropies of a network that predicts a token of `classes` at each of the `targets`.

    More than LARGEST_LOGITS logits never exist at once.

    Args:
        network: takes the `inputs`, and gives (..., classes) logits, or with `read` what that returns.
        targets: (batch, time), a class each, or NO_TARGET.
    """
    if targets.numel() * classes <= LARGEST_LOGITS:
        return summed_cross_entropy(network(*inputs).float().flatten(0, 1), targets.flatten(), label_smoothing, z_loss)
    sums: Loss = network(*inputs, read=ChunkedCrossEntropy(targets.flatten(), classes, label_smoothing, z_loss))
    return sums


class ChunkedCrossEntropy(NamedTuple):
    """The same sums, of a network that calls it with what comes before its head, and its head.

    The head's product and the loss are computed for some predictions at a time, and again for their gradients: memory
    for all logits is saved for one more product of the head, of the three that it takes.

    Source: Wijmans et al. 2024, "Cut your losses in large-vocabulary language models", which does so inside of a
    kernel; in chunks: Hsu et al. 2024, "Liger kernel: efficient Triton kernels for LLM training", section 3.2.
    """

    targets: Tensor
    classes: int
    label_smoothing: float
    z_loss: float

    def __call__(self, decoded: Tensor, head: nn.Module) -> Loss:
        """Return the sums; `decoded`: (batch, time, width), of which the head makes logits."""

        def loss_of(decoded: Tensor, targets: Tensor) -> Loss:
            return summed_cross_entropy(head(decoded).float(), targets, self.label_smoothing, self.z_loss)

        rows = max(1, LARGEST_LOGITS // self.classes)
        count = math.ceil(len(self.targets) / rows)
        parts = zip(decoded.flatten(0, 1).chunk(count), self.targets.chunk(count), strict=True)
        losses = [checkpoint(loss_of, part, targets, use_reentrant=False) for part, targets in parts]
        return Loss(*(torch.stack(sums).sum() for sums in zip(*losses, strict=True)))
