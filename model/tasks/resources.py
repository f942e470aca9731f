"""The costs of a trained network: its size, its operations, its speed."""

from typing import TYPE_CHECKING, Any

from model.config.whole import Config
from model.cost import cost_per_example

if TYPE_CHECKING:
    from torch import nn  # The driver of a search needs only the names below, and must not load torch.

# The costs that are measured on the training machine, and therefore differ from run to run.
MEASURED = ("examples_per_second",)
# The names of all costs.
RESOURCES = ("parameters", "cost_per_example", "model_bytes", *MEASURED)


def count_resources(config: Config[Any, Any], network: "nn.Module") -> dict[str, float]:
    """Return the costs that are the same on every machine; lower is better.

    `parameters` is the number of trained weights; weights that two layers share count once. `cost_per_example` is the
    result of `model.cost.cost_per_example`. `model_bytes` is the size of the weights in a checkpoint in bytes, without
    the names of the weights. The costs of two folds differ only if the folds have different vocabularies or classes.
    """
    return {
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "cost_per_example": cost_per_example(config),
        "model_bytes": sum(tensor.nbytes for tensor in network.state_dict().values()),
    }
