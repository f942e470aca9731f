"""Metrics of predicted classes; higher is better."""

import torch
from torch import Tensor


def accuracy(predicted: Tensor, target: Tensor) -> float:
    """Return the share of equal entries of two (examples,) tensors, 0 .. 1."""
    return float((predicted == target).double().mean())


def macro_f1(predicted: Tensor, target: Tensor, num_classes: int) -> float:
    """Return the mean over classes of 2 TP / (2 TP + FP + FN), 0 .. 1.

    Classes that neither occur nor are predicted are left out, as in scikit-learn's f1_score.

    Args:
        predicted: (examples,), class numbers.
        target: (examples,), class numbers; one >= num_classes is a label unknown to the model, so always wrong.
        num_classes: the model's number of classes.
    """
    size = max(num_classes, int(target.max()) + 1)
    hits = torch.bincount(target[predicted == target], minlength=size).double()
    both = (torch.bincount(predicted, minlength=size) + torch.bincount(target, minlength=size)).double()
    return float((2 * hits[both > 0] / both[both > 0]).mean())
