"""Builds the network for a learning task, in the configured parametrization."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from model.config.whole import Config
from model.networks.parametrization import Factors, parametrize
from model.tasks.task import Task


def build_network(task: Task, config: Config[Any, Any]) -> tuple[nn.Module, Mapping[str, Factors] | None]:
    """Return a network with initial weights, and a dict from each parameter's name to its `Factors`.

    The weights come from torch's random generator. With the standard parametrization, the second value is None,
    because all factors are 1.
    """
    network = task.build(config)
    if config.model.parametrization == "standard":
        return network, None
    with torch.device("meta"):
        base = task.build(config.model_copy(update={"model": config.model.at_base()}))
    return network, parametrize(network, base, config.model)
