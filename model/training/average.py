"""The running mean of a network's weights, which is often better than the last of them."""

from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from model.config.training import TrainingConfig


def average_of(network: nn.Module, config: TrainingConfig) -> AveragedModel | None:
    """Return the running mean of the network's weights, where one is configured; its first is after the first step.

    Source: Polyak, Juditsky 1992, "Acceleration of stochastic approximation by averaging"; with weights that decay:
    Tarvainen, Valpola 2017, "Mean teachers are better role models", equation 2.
    """
    if config.ema is None:
        return None
    mean = get_ema_multi_avg_fn(config.ema)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return AveragedModel(network, multi_avg_fn=mean)
