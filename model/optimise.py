"""Optimizers, the learning rate over time, and what is done to gradients before a step."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from model.config import TrainingConfig


def build_optimizer(network: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """The configured optimizer over all parameters of `network`.

    `weight_decay` is coupled (added to the gradient) in sgd, adam, adagrad and rmsprop, and decoupled in adamw.
    Biases and norms, the parameters with fewer than two dimensions, are exempt unless configured otherwise.

    Source: adam: Kingma, Ba 2015; adamw: Loshchilov, Hutter 2019; adagrad: Duchi, Hazan, Singer 2011; rmsprop: Hinton,
    Coursera lecture 6e, 2012; Nesterov: Sutskever et al. 2013. As torch.optim implements them.
    """
    lr, epsilon, momentum = config.lr, config.epsilon, config.momentum or 0.0
    groups = [
        {"params": decayed_parameters(network, config), "weight_decay": config.weight_decay},
        {"params": exempt_parameters(network, config), "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    betas = (config.beta1, config.beta2)
    match config.optimizer:
        case "sgd":
            return torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=config.nesterov, fused=True)
        case "adam":
            return torch.optim.Adam(groups, lr=lr, betas=betas, eps=epsilon, fused=True)
        case "adamw":
            return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=epsilon, fused=True)
        case "adagrad":
            return torch.optim.Adagrad(groups, lr=lr, eps=epsilon)
        case "rmsprop":
            return torch.optim.RMSprop(groups, lr=lr, alpha=config.beta2, eps=epsilon, momentum=momentum, foreach=True)


def decayed_parameters(network: nn.Module, config: TrainingConfig) -> list[nn.Parameter]:
    """The parameters that weight decay and L1 apply to."""
    return [p for p in network.parameters() if p.ndim >= 2 or config.decay_biases_and_norms]


def exempt_parameters(network: nn.Module, config: TrainingConfig) -> list[nn.Parameter]:
    """The parameters that weight decay and L1 leave alone."""
    return [p for p in network.parameters() if p.ndim < 2 and not config.decay_biases_and_norms]


def learning_rate(step: int, num_steps: int, config: TrainingConfig) -> float:
    """The learning rate of step 0 .. num_steps - 1: up in a straight line, then down as `schedule` says.

    Source: linear warm-up and inverse square root: Vaswani et al. 2017, section 5.3, equation 3, with `lr` as the
    highest value in place of d_model^-0.5 * warmup_steps^-0.5; cosine: Loshchilov, Hutter 2017 (SGDR), equation 5,
    without restarts.
    """
    warmup = round(config.warmup_fraction * num_steps)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    progress = (step - warmup) / max(num_steps - warmup, 1)
    match config.schedule:
        case "constant":
            return config.lr
        case "linear":
            return config.lr * (1 - progress)
        case "cosine":
            return config.lr * (1 + math.cos(math.pi * progress)) / 2
        case "inverse_sqrt":
            return config.lr * math.sqrt(max(warmup, 1) / (step + 1))


@torch.no_grad()
def add_l1_gradient(parameters: Iterable[nn.Parameter], strength: float) -> None:
    """Adds strength * sign(w), the (sub)gradient of strength * |w|, to every gradient; source: Tibshirani 1996."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.add_(parameter.sign(), alpha=strength)


def clip_gradients(network: nn.Module, max_norm: float) -> Tensor:
    """Scales all gradients so that their joint length is at most `max_norm`; the length before.

    Source: Pascanu, Mikolov, Bengio 2013, "On the difficulty of training recurrent neural networks", section 3.2.
    """
    return nn.utils.clip_grad_norm_(network.parameters(), max_norm, foreach=True)
