"""The loss that every task trains by."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

NO_TARGET = -100  # the label of a position that is not predicted


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
