"""Metrics of predicted classes, and the measurements from which these metrics are computed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from model.tasks.by_example import ByExample, Rows


class MeasuredLabels(NamedTuple):
    """The measurements of one batch for the metrics. A true class is known if it is one of the model's classes.

    Attributes:
        predicted, target: (predictions,), the predicted and the true class numbers, on the CPU.
        loss: the cross-entropy in nats, summed over the predictions whose true class is known.
        known: the number of predictions whose true class is known.
    """

    predicted: Tensor
    target: Tensor
    loss: float
    known: int


def measured_labels(logits: Tensor, targets: Tensor) -> MeasuredLabels:
    """Compute the measurements of a batch.

    Args:
        logits: (predictions, classes).
        targets: (predictions,), the indices of the true classes. The index `logits.shape[1]` stands for every class
            that the model does not have.
    """
    is_known = targets < logits.shape[1]
    loss = functional.cross_entropy(logits[is_known], targets[is_known], reduction="sum")
    return MeasuredLabels(logits.argmax(dim=-1).cpu(), targets.cpu(), float(loss), int(is_known.sum()))


def label_metrics(measured: Sequence[MeasuredLabels], num_classes: int) -> dict[str, float]:
    """Return accuracy and macro F1 (0 .. 1, higher is better), and mean cross-entropy in nats (lower is better)."""
    predicted, target = (torch.cat([getattr(each, name) for each in measured]) for name in ("predicted", "target"))
    return {
        "accuracy": accuracy(predicted, target),
        "macro_f1": macro_f1(predicted, target, num_classes),
        "loss": sum(each.loss for each in measured) / max(sum(each.known for each in measured), 1),
    }


def label_sums(
    measured: Sequence[MeasuredLabels], example: Tensor, num_examples: int, num_classes: int
) -> dict[str, ByExample | str]:
    """Return the contribution of each example to `accuracy` and to `macro_f1`; see `ByExample`.

    An example has one or several predictions. `example` (predictions,) holds the index of each prediction's example.
    """
    predicted, target = (torch.cat([getattr(each, name) for each in measured]) for name in ("predicted", "target"))
    size = max(num_classes, int(target.max()) + 1)
    zeros, ones = torch.zeros(num_examples, size, dtype=torch.float64), torch.ones(len(target), dtype=torch.float64)
    is_right = (predicted == target).double()
    hits = zeros.index_put((example, target), is_right, accumulate=True)
    both = zeros.index_put((example, target), ones, accumulate=True)
    counts = both.sum(dim=1)
    both.index_put_((example, predicted), ones, accumulate=True)
    # The metric of every sample must be a mean over the same classes, even if a sample lacks a rare class.
    counted = both.sum(dim=0) > 0
    return {
        "accuracy": ByExample(torch.stack([hits.sum(dim=1), counts], dim=1).numpy()),
        "macro_f1": ByExample(torch.cat([hits[:, counted], both[:, counted]], dim=1).numpy(), _macro_f1_of_sums),
    }


def _macro_f1_of_sums(sums: Rows) -> Rows:
    hits, both = np.split(sums, 2, axis=-1)
    f1 = np.divide(2 * hits, both, out=np.zeros_like(hits), where=both > 0)
    return np.asarray(f1.mean(axis=-1))


def accuracy(predicted: Tensor, target: Tensor) -> float:
    """Return the share of predictions with the true class, 0 .. 1; both tensors have the shape (predictions,)."""
    return float((predicted == target).double().mean())


def macro_f1(predicted: Tensor, target: Tensor, num_classes: int) -> float:
    """Return the mean of 2 TP / (2 TP + FP + FN) over the classes, 0 .. 1.

    Classes that neither occur nor are predicted do not count, as in scikit-learn's f1_score.

    Args:
        predicted: (predictions,), class numbers.
        target: (predictions,), class numbers. A number >= num_classes is not one of the model's classes; each such
            number counts as a class with F1 0.
        num_classes: the model's number of classes.
    """
    size = max(num_classes, int(target.max()) + 1)
    hits = torch.bincount(target[predicted == target], minlength=size).double()
    both = (torch.bincount(predicted, minlength=size) + torch.bincount(target, minlength=size)).double()
    return float((2 * hits[both > 0] / both[both > 0]).mean())
