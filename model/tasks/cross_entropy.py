"""The cross-entropy, which is the loss of every learning task."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from model.networks.roles import Head

NO_TARGET = -100  # the label of a position that is not predicted

# The most logits that are computed at once. They take 256 MiB in float32, and a backward pass holds three such tensors.
LARGEST_LOGITS = 2**26
# For each class, the gradients of its logits are scaled so that their sum is at most this number, because the largest
# number in float16 is 65504.
_LARGEST_SUM = 2**12


class Loss(NamedTuple):
    """The loss of a batch: two sums over the predictions, each a scalar in nats; lower is better.

    Attributes:
        objective: the sum that training minimises; it includes label smoothing and z-loss, and has a gradient.
        cross_entropy: the reported sum, without label smoothing, z-loss or gradient.
    """

    objective: Tensor
    cross_entropy: Tensor


def summed_cross_entropy(logits: Tensor, targets: Tensor, label_smoothing: float, z_loss: float) -> Loss:
    """Return the cross-entropy, summed over predictions.

    Args:
        logits: (predictions, classes).
        targets: (predictions,), the class of each prediction, or NO_TARGET.
        label_smoothing: the share of each target that is spread evenly over all classes.
        z_loss: the loss of each prediction includes z_loss * log(Z)^2, where Z is the denominator of the softmax. This
            term keeps logits from drifting (Chowdhery et al. 2022, "PaLM", section 5).
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
    """Return the loss of a token-predicting network, summed over predictions.

    At most LARGEST_LOGITS logits exist at once.

    Args:
        network: a function of `inputs` that returns logits (..., classes). It must also accept an argument `read`, a
            function of the head's input and the head. If `read` is given, the network returns the result of `read`
            instead of logits.
        inputs: the arguments of the network.
        targets: (batch, time), the class of each prediction, or NO_TARGET.
        classes: the number of classes.
        label_smoothing, z_loss: see `summed_cross_entropy`.
    """
    if targets.numel() * classes <= LARGEST_LOGITS:
        return summed_cross_entropy(network(*inputs).float().flatten(0, 1), targets.flatten(), label_smoothing, z_loss)
    sums: Loss = network(*inputs, read=ChunkedCrossEntropy(targets.flatten(), classes, label_smoothing, z_loss))
    return sums


class ChunkedCrossEntropy(NamedTuple):
    """Computes the summed loss of a batch in chunks of predictions, so that few logits exist at once.

    The network calls this object with the head's input and the head. The loss of a chunk and its gradients are computed
    together. So the logits of a chunk are computed only once, and are not stored for the backward pass.

    Source: Hsu et al. 2024, "Liger kernel: efficient Triton kernels for LLM training", section 3.2. Wijmans et al.
    2024, "Cut your losses in large-vocabulary language models", do the same inside a kernel.
    """

    targets: Tensor
    classes: int
    label_smoothing: float
    z_loss: float

    def __call__(self, decoded: Tensor, head: Head) -> Loss:
        """Return the summed loss; `decoded` (batch, time, width) is the input of the head."""
        rows = max(1, LARGEST_LOGITS // self.classes)
        count = math.ceil(len(self.targets) / rows)
        settings = (self.targets, count, self.label_smoothing, self.z_loss, torch.is_grad_enabled())
        scaled = decoded.flatten(0, 1) * head.scale
        sums = _ChunkedSums.apply(scaled, head.weights(), *settings)  # type: ignore[no-untyped-call]  # torch's
        return Loss(*sums)


class _ChunkedSums(torch.autograd.Function):
    """The summed loss of `count` chunks of predictions, computed together with its gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weights: Tensor,
        targets: Tensor,
        count: int,
        label_smoothing: float,
        z_loss: float,
        has_gradients: bool,
    ) -> tuple[Tensor, Tensor]:
        """Return the two sums of `Loss`; shapes: `x` (predictions, width), `weights` (classes, width)."""
        losses, rows = [], []
        of_weights = torch.zeros_like(weights) if has_gradients else None
        for part, labels in zip(x.chunk(count), targets.chunk(count), strict=True):
            logits = functional.linear(part, weights).float()
            losses.append(summed_cross_entropy(logits, labels, label_smoothing, z_loss))
            if of_weights is not None:
                factor = _LARGEST_SUM / len(part)
                of_logits = _gradient(logits, labels, label_smoothing, z_loss, factor)
                rows.append((of_logits @ weights).to(x.dtype).div_(factor))
                of_weights.add_(of_logits.T @ part, alpha=1 / factor)
        if of_weights is not None:
            ctx.save_for_backward(torch.cat(rows), of_weights)
        objective, cross_entropy = (torch.stack(sums).sum() for sums in zip(*losses, strict=True))
        ctx.mark_non_differentiable(cross_entropy)
        return objective, cross_entropy

    @staticmethod
    def backward(ctx: Any, of_objective: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of `x` and `weights`, and None for all other arguments of `forward`."""
        of_x, of_weights = ctx.saved_tensors
        return of_x * of_objective, of_weights * of_objective, None, None, None, None, None


def _gradient(logits: Tensor, targets: Tensor, label_smoothing: float, z_loss: float, factor: float) -> Tensor:
    """Return `factor` times the gradient of `Loss.objective` with respect to `logits`, shape (predictions, classes).

    The gradient of one prediction is the softmax minus the smoothed target. The z-loss multiplies the softmax by
    1 + 2 * z_loss * log(Z), where Z is the denominator of the softmax. If the target is NO_TARGET, the gradient is 0.
    """
    gradient = logits.softmax(dim=-1)
    if z_loss:
        gradient *= 1 + 2 * z_loss * logits.logsumexp(dim=-1, keepdim=True)
    if label_smoothing:
        gradient -= label_smoothing / logits.shape[-1]
    is_known = (targets != NO_TARGET).unsqueeze(1)
    places = targets.unsqueeze(1).where(is_known, 0)
    gradient.scatter_add_(1, places, gradient.new_full((), label_smoothing - 1).expand_as(places))
    return gradient.mul_(is_known.to(gradient.dtype) * factor)
