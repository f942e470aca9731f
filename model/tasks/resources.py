"""What a trained network takes, beside how well it predicts."""

from typing import TYPE_CHECKING, Any

from model.config.whole import Config
from model.cost import cost_per_example

if TYPE_CHECKING:
    from torch import nn  # A search's driver, which only asks for the names, loads no torch.

# Measured on the machine that trains: to the bit no two trainings have the same.
MEASURED = ("examples_per_second",)
# The names of all of them, counted and measured.
RESOURCES = ("parameters", "cost_per_example", "model_bytes", *MEASURED)


def count_resources(config: Config[Any, Any], network: "nn.Module") -> dict[str, float]:
    """Return what can be counted, the less the better: the same on every machine.

    `parameters`: numbers that are trained, of which those of shared weights count once. `cost_per_example`: see
    `model.cost.cost_per_example`. `model_bytes`: of the weights in a checkpoint, without the names before them. Folds
    differ only where they have learned other vocabularies or classes.
    """
    return {
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "cost_per_example": cost_per_example(config),
        "model_bytes": sum(tensor.nbytes for tensor in network.state_dict().values()),
    }
