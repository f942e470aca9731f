"""The maps and the block of a convolutional network.

Shapes: batch = sequences, time = tokens of one sequence, d_model = numbers of an embedding, filters = numbers per token
between blocks.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import is_parametrized

from model.config.networks.convolutional import ConvolutionalConfig
from model.networks.roles import Matrix

# A sum of two branches keeps its variance: Gehring et al. 2017, section 3.4.
HALF = math.sqrt(0.5)


class Map(nn.Linear):
    """A linear map that knows its initial weights, normal with sqrt(gain * kept / inputs): Gehring et al. 2017, section
    3.5, where the gain is 4 before gates and 1 elsewhere, and `kept` is the share that dropout leaves of the inputs.

    Attributes:
        sizes: the outputs of each map that is stacked in it, as in `Matrix`.
    """

    def __init__(self, inputs: int, sizes: tuple[int, ...], gain: float, dropout: float) -> None:
        super().__init__(inputs, sum(sizes))
        self.sizes = sizes
        self.initial_std = math.sqrt(gain * (1 - dropout) / inputs)

    def draw_weight(self) -> None:
        """Draw the weight before the first step; with weight normalisation, what it is computed from is set."""
        drawn = torch.randn_like(self.weight) * self.initial_std
        if is_parametrized(self, "weight"):
            self.weight = drawn
        else:
            self.weight.copy_(drawn)


def build_map(config: ConvolutionalConfig, inputs: int, *sizes: int, gain: float = 1.0, dropout: float = 0.0) -> Map:
    """Return a map to `sizes` outputs, with weight normalisation (Salimans, Kingma 2016) where the configuration says
    so; several sizes are maps of the same inputs that are stacked in one.
    """
    made = Map(inputs, sizes, gain, dropout)
    return weight_norm(made) if config.weight_norm else made


class Block(nn.Module):
    """A convolution over the neighbouring tokens, and gates: A * sigmoid(B) of its two halves A and B.

    Source: Gehring et al. 2017, section 3.2; gates: Dauphin et al. 2017, "Language modeling with gated convolutional
    networks".
    """

    def __init__(self, config: ConvolutionalConfig, *, causal: bool) -> None:
        super().__init__()
        width = config.filter_width
        self.dropout = config.dropout
        self.before, self.after = (width - 1, 0) if causal else (width // 2, width // 2)
        self.width = width
        halves = (config.filters, config.filters)
        self.map = build_map(config, width * config.filters, *halves, gain=4.0, dropout=config.dropout)

    def forward(self, x: Tensor, attention_mask: Tensor | None = None, before: Tensor | None = None) -> Tensor:
        """Return what the filters say of every token.

        Args:
            x: (batch, time, filters).
            attention_mask: (batch, time), True = a token, False = padding, which counts as zeros; None = no padding.
            before: (batch, width - 1, filters), the tokens before `x`, for a causal block; None = zeros.

        Returns:
            (batch, time, filters).
        """
        x = functional.dropout(x, self.dropout, self.training)
        if attention_mask is not None:
            x = x.masked_fill(~attention_mask.unsqueeze(-1), 0.0)
        ends = (0, 0, self.before, self.after)
        x = functional.pad(x, ends) if before is None else torch.cat([before, x], dim=1)
        # (batch, time, filters, width): all that a filter sees, side by side.
        return functional.glu(self.map(x.unfold(1, self.width, 1).flatten(2)), dim=-1)


def matrices_of_maps(module: nn.Module) -> list[Matrix]:
    """Return the weights of the maps below a module; with weight normalisation their directions, not their lengths."""
    maps = [part for part in module.modules() if isinstance(part, Map)]
    directions = "parametrizations.weight.original1"
    weights = [part.get_parameter(directions if is_parametrized(part, "weight") else "weight") for part in maps]
    return [Matrix(weight, part.sizes) for weight, part in zip(weights, maps, strict=True)]
