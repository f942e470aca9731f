"""Optimizers, changes of gradients before a step (L1, clipping), and the running mean of the weights."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from model.config.training import TrainingConfig
from model.networks.parametrization import Factors
from model.networks.roles import is_vector, matrices_of
from model.training.muon import Muon


def build_optimizers(
    network: nn.Module, config: TrainingConfig, factors: Mapping[str, Factors] | None = None
) -> list[torch.optim.Optimizer]:
    """Return the configured optimizer for all parameters of `network`; `muon` is a pair of optimizers.

    `weight_decay` is coupled (added to the gradient) in sgd, adam, adagrad and rmsprop, and decoupled in adamw and
    muon. Without `decay_biases_and_norms`, weight decay does not apply to vectors (see `is_vector`). Vectors are
    biases, the gains of norms, and the lengths of normalised weights.

    With muon, Muon updates the matrices inside the layers, and adamw updates the embeddings, the head and all vectors.
    Muon's steps are scaled to the size of adamw's steps, so that both can use the same `lr`.

    `factors` holds, for each parameter, the factors of adamw's and muon's settings (None = all are 1); see
    `parametrize`. The key `rate` in a parameter group of adamw or muon is the factor of the group's learning rate.

    Source: adam: Kingma, Ba 2015; adamw: Loshchilov, Hutter 2019; adagrad: Duchi, Hazan, Singer 2011; rmsprop: Hinton,
    Coursera lecture 6e, 2012; Nesterov: Sutskever et al. 2013; muon: see `Muon`. The implementations are those of
    torch.optim.
    """
    lr, epsilon, momentum = config.lr, config.epsilon, config.momentum or 0.0
    scales = {id(weight): factors[name] if factors else Factors() for name, weight in network.named_parameters()}
    betas = (config.beta1, config.beta2)
    match config.optimizer:
        case "sgd":
            sgd = torch.optim.SGD(_groups(network, config), lr, momentum, nesterov=config.nesterov, fused=True)
            return [sgd]
        case "adam":
            return [torch.optim.Adam(_groups(network, config), lr, betas, epsilon, fused=True)]
        case "adamw":
            return [torch.optim.AdamW(_scaled_groups(network, config, scales), lr, betas, epsilon, fused=True)]
        case "adagrad":
            return [torch.optim.Adagrad(_groups(network, config), lr, eps=epsilon, foreach=True)]
        case "rmsprop":
            groups = _groups(network, config)
            return [torch.optim.RMSprop(groups, lr, config.beta2, epsilon, momentum=momentum, foreach=True)]
        case "muon":
            matrices = list(matrices_of(network))
            taken = {id(matrix.weight) for matrix in matrices}
            rates = [scales[id(matrix.weight)].muon for matrix in matrices]
            momentum = 0.95 if config.momentum is None else config.momentum
            groups = _scaled_groups(network, config, scales, taken)
            return [
                Muon(matrices, lr, config.weight_decay, momentum, rates),
                torch.optim.AdamW(groups, lr, betas, epsilon, fused=True),
            ]


def _groups(network: nn.Module, config: TrainingConfig, taken: Collection[int] = ()) -> list[dict[str, Any]]:
    decayed = [p for p in decayed_parameters(network, config) if id(p) not in taken]
    exempt = [
        p for p in network.parameters() if is_vector(p) and id(p) not in taken and not config.decay_biases_and_norms
    ]
    groups = [(decayed, config.weight_decay), (exempt, 0.0)]
    return [{"params": parameters, "weight_decay": decay} for parameters, decay in groups if parameters]


def _scaled_groups(
    network: nn.Module, config: TrainingConfig, scales: Mapping[int, Factors], taken: Collection[int] = ()
) -> list[dict[str, Any]]:
    """Return parameter groups; all parameters of a group have equal weight decay and equal `Factors`.

    The keys `weight_decay` and `eps` of a group are already multiplied by their factors. The key `rate` is the factor
    by which `Update` multiplies the group's learning rate in each step.
    """
    return [
        {
            "params": [parameter for parameter in group["params"] if scales[id(parameter)] == factor],
            "weight_decay": group["weight_decay"] / factor.rate,
            "eps": config.epsilon * factor.epsilon,
            "rate": factor.rate,
        }
        for group in _groups(network, config, taken)
        for factor in dict.fromkeys(scales[id(parameter)] for parameter in group["params"])
    ]


def decayed_parameters(network: nn.Module, config: TrainingConfig) -> list[nn.Parameter]:
    """Return the parameters to which weight decay and L1 apply."""
    return [p for p in network.parameters() if config.decay_biases_and_norms or not is_vector(p)]


@torch.no_grad()
def add_l1_gradient(parameters: Iterable[nn.Parameter], strength: float) -> None:
    """Add strength * sign(w), the (sub)gradient of strength * |w|, to every gradient. Source: Tibshirani 1996."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.add_(parameter.sign(), alpha=strength)


def clip_gradients(network: nn.Module, max_norm: float) -> Tensor:
    """Scale all gradients to a joint norm of at most `max_norm`; return the norm before the scaling, a scalar.

    Source: Pascanu, Mikolov, Bengio 2013, "On the difficulty of training recurrent neural networks", section 3.2.
    """
    return nn.utils.clip_grad_norm_(network.parameters(), max_norm, foreach=True)


def average_of(network: nn.Module, config: TrainingConfig) -> AveragedModel | None:
    """Return an object that computes the running mean of the network's weights; None = `ema` is not set.

    After the first step, the mean equals the weights. Each later step replaces the mean by
    decay * mean + (1 - decay) * weights. The decay is `ema`. With `ema_warmup`, the decay is at most
    (1 + t) / (10 + t), t steps after the first step, so that an early mean consists mostly of the latest weights.

    Source: Polyak, Juditsky 1992, "Acceleration of stochastic approximation by averaging"; for the exponential mean:
    Tarvainen, Valpola 2017, "Mean teachers are better role models", equation 2; for the warm-up: `num_updates` of
    TensorFlow's tf.train.ExponentialMovingAverage, as in EMAModel of Hugging Face's diffusers.
    """
    if config.ema is None:
        return None
    longest, average = config.ema, AveragedModel(network)
    num_averaged = average.n_averaged  # on the CPU, so that reading it does not wait for a GPU

    def update(means: Any, weights: Any, _: Tensor | int) -> None:
        t = int(num_averaged)
        decay = min(longest, (1 + t) / (10 + t)) if config.ema_warmup else longest
        get_ema_multi_avg_fn(decay)(means, weights, t)  # type: ignore[no-untyped-call]  # torch leaves it untyped

    average.multi_avg_fn = update
    return average
