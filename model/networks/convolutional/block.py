"""The linear maps and the block of a convolutional network.

In shapes, batch is the number of sequences, time the number of tokens of one sequence, and d_model the length of an
embedding vector. Blocks read and return a vector for each token; filters is the length of this vector.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import is_parametrized

from model.config.networks.convolutional import ConvolutionalConfig
from model.networks.roles import Matrix

# The factor that keeps the variance in a sum of two branches: Gehring et al. 2017, section 3.4.
HALF = math.sqrt(0.5)


class Map(nn.Linear):
    """A linear map whose initial weights are drawn from a normal distribution with mean 0.

    The standard deviation is sqrt(gain * (1 - dropout) / inputs), where `inputs` is the number of inputs. The gain is 4
    if gates follow the map, and 1 otherwise. A `Map` may join several linear maps of the same inputs.

    Source: Gehring et al. 2017, section 3.5.

    Attributes:
        sizes: the number of outputs of each joined map; see `Matrix`.
    """

    def __init__(self, inputs: int, sizes: tuple[int, ...], gain: float, dropout: float) -> None:
        super().__init__(inputs, sum(sizes))
        self.sizes = sizes
        self.initial_std = math.sqrt(gain * (1 - dropout) / inputs)

    def draw_weight(self) -> None:
        """Draw the initial weight; with weight normalisation, set the parameters from which the weight is computed."""
        drawn = torch.randn_like(self.weight) * self.initial_std
        if is_parametrized(self, "weight"):
            self.weight = drawn
        else:
            self.weight.copy_(drawn)


def build_map(config: ConvolutionalConfig, inputs: int, *sizes: int, gain: float = 1.0, dropout: float = 0.0) -> Map:
    """Return a linear map with one or several groups of outputs; `sizes` holds the number of outputs of each group.

    If `config.weight_norm` is set, the map has weight normalisation (Salimans, Kingma 2016).
    """
    plain = Map(inputs, sizes, gain, dropout)
    return weight_norm(plain) if config.weight_norm else plain


class Block(nn.Module):
    """A convolution over neighbouring tokens, then a gate A * sigmoid(B); A and B are halves of the convolved output.

    A causal block reads a token and the tokens before it. Any other block reads equally many tokens on each side.

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
        """Return the gated outputs of the filters.

        Args:
            x: (batch, time, filters).
            attention_mask: (batch, time), True = a token, False = padding, which counts as zeros; None = no padding.
            before: for a causal block, the inputs that precede `x`, (batch, width - 1, filters); None = zeros.

        Returns:
            (batch, time, filters).
        """
        x = functional.dropout(x, self.dropout, self.training)
        if attention_mask is not None:
            x = x.masked_fill(~attention_mask.unsqueeze(-1), 0.0)
        ends = (0, 0, self.before, self.after)
        x = functional.pad(x, ends) if before is None else torch.cat([before, x], dim=1)
        # `unfold` gives (batch, time, filters, width): all inputs of a filter, which `flatten` puts into one row.
        return functional.glu(self.map(x.unfold(1, self.width, 1).flatten(2)), dim=-1)


def matrices_of_maps(module: nn.Module) -> list[Matrix]:
    """Return the weight matrices of all layers of type `Map` in a module.

    With weight normalisation, return the parameters of the directions only.
    """
    maps = [part for part in module.modules() if isinstance(part, Map)]
    directions = "parametrizations.weight.original1"
    weights = [part.get_parameter(directions if is_parametrized(part, "weight") else "weight") for part in maps]
    return [Matrix(weight, part.sizes) for weight, part in zip(weights, maps, strict=True)]
