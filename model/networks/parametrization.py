"""Scales weights and learning rates with a network's size: settings tuned on a small network then suit a large one."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn

from model.config.networks.network import ModelConfig
from model.config.networks.transformer import TransformerConfig
from model.networks.convolutional.block import Map
from model.networks.embedding import InputEmbedding
from model.networks.roles import Head, Role, is_vector, matrices_of
from model.networks.transformer.stack import Stack

# The default factors of the learning rate of embeddings: one for at least MANY_TOKENS tokens, most of which are rare
# (Hayou, Liu 2025, arXiv 2506.15025), and one for fewer tokens. benchmarks/scale/README.md has the measurements.
MANY_TOKENS, _RATE_OF_MANY, _RATE_OF_FEW = 1000, 4.0, 1.0


@dataclass(frozen=True)
class Factors:
    """The factors by which one parameter's optimizer settings are multiplied.

    The factor of weight decay is the inverse of the factor of the learning rate: 1 / `rate` with the optimizer adamw,
    and 1 / `muon` with the optimizer muon.

    Attributes:
        rate: the factor of the learning rate of adamw.
        muon: the factor of the learning rate of muon; only matrices use it.
        epsilon: the factor of the optimizer's epsilon.
    """

    rate: float = 1.0
    muon: float = 1.0
    epsilon: float = 1.0


@torch.no_grad()
def parametrize(network: nn.Module, base: nn.Module, config: ModelConfig) -> Mapping[str, Factors]:
    """Apply the maximal update parametrization to a network with initial weights; return the `Factors` by parameter.

    The table has one row per role (see `roles_of`). The columns `rate` and `epsilon` are the factors in `Factors`.

    | role            | initial spread                         | multiplier       | rate   | epsilon   |
    |-----------------|----------------------------------------|------------------|--------|-----------|
    | embedding       | unchanged                              | unchanged        | e / r  | m^-1/2    |
    | input           | positions: unchanged; rows: X(base)    | 1                | 1      | m^-1/2    |
    | tied            | multiplied by m^-1/2                   | logits: h m^-1/2 | m^-1/2 | m^-1/2    |
    | matrix          | X(base) i^-1/2; without X: unchanged   | 1                | 1 / i  | 1 / (m L) |
    | head            | min(X(own) m^1/2, X(base) m^-1/2) / h  | logits: h m^-1/2 | m^-1/2 | m^-1/2    |
    | gain, bias      | unchanged                              | 1                | g      | 1 / (m L) |
    | residual branch |                                        | 1 / L            |        |           |

    Columns and cells:

    - initial spread: the standard deviation of the parameter's initial values;
    - multiplier: the factor of a layer's output in the forward pass;
    - unchanged: as before the call of this function;
    - positions: learned position vectors; rows: the layer that reads rows of numbers;
    - X: the initial spread of Glorot, Bengio 2010, in this network (own) or in the base network (base);
    - without X: for parameters with another initial spread than X(own).

    Ratios, each a value in this network divided by the same value in the base network:

    - i: the ratio of the parameter's fan-in;
    - m: the ratio of the parameter's width; in the term 1 / (m L), the ratio of `d_model`;
    - L: the ratio of the number of layers in the parameter's stack; outside of a Transformer's layers, L is 1.

    Other symbols:

    - r: m^1/2 in a Transformer, because a Transformer multiplies token vectors by sqrt(d_model); 1 in other networks;
    - h, g, e: `head_scale`, `gain_rate`, `embedding_rate`.

    The factor of decoupled weight decay is the inverse of the learning rate's factor, so that the learning rate times
    the weight decay stays the same. For a matrix, the factor of Muon's learning rate is i^-1/2. The reason is that the
    numbers in a step of Muon have the same root mean square at every width. Without the factor, the step's largest
    singular value would grow with the root of the width. Attention scores are divided by the root of the key width, as
    in the original Transformer, and not by the key width.

    Source: Yang et al. 2021, "Tensor programs V: tuning large neural networks via zero-shot hyperparameter transfer",
    table 8; for depth Dey et al. 2025, "Don't be lazy: CompleteP enables compute-efficient deep Transformers", with
    alpha = 1. Some rules differ from these sources because of measurements: see docs/explanation/scale.md.

    Args:
        network: a network with initial weights; this function changes the weights, and the scales of heads and residual
            branches.
        base: the base network: the same layers with the base widths; the weights of the base network have no influence.
        config: the configuration of the network.
    """
    roles, factors = roles_of(network), {}
    width, depths = config.d_model / config.base.d_model, _depths(network, config.base.num_layers)
    token_factor = sqrt(width) if isinstance(config, TransformerConfig) else 1.0
    for place, module in network.named_modules():
        of_base = base.get_submodule(place)
        for name, parameter in module.named_parameters(recurse=False):
            full, at_base = f"{place}.{name}".removeprefix("."), of_base.get_parameter(name)
            if full in roles:
                size = width * depths.get(full, 1.0)
                factors[full] = factors_of(roles[full], parameter, at_base, size, token_factor, config)
                parameter.mul_(_spread(roles[full], _glorot(module, name, of_base), parameter, at_base))
        if isinstance(module, Head):
            assert isinstance(of_base, Head)
            module.scale *= (module.weights().shape[1] / of_base.weights().shape[1]) ** -0.5
        if isinstance(module, Stack):
            module.scale_branches(config.base.num_layers / len(module.layers))
    return factors


def roles_of(network: nn.Module) -> Mapping[str, Role]:
    """Return the role of each parameter, by the parameter's name.

    `embedding`: token vectors; `input`: position vectors, and the layer that reads rows of numbers; `tied`: token
    vectors that are also the head; `matrix`: a map inside a layer; `head`: the layer that computes logits; `vector`:
    biases, gains, and lengths of normalised weights.
    """
    roles: dict[int, Role] = {id(matrix.weight): "matrix" for matrix in matrices_of(network)}
    for module in network.modules():
        if isinstance(module, InputEmbedding):
            parts = [module.positions] if module.rows is None else [module.positions, module.rows]
            parameters = (parameter for part in parts for parameter in part.parameters())
            roles |= {id(parameter): "input" for parameter in parameters if not is_vector(parameter)}
        if isinstance(module, Head):
            roles[id(module.weights())] = "tied" if module.is_tied else "head"
    return {
        name: roles.get(id(parameter), "vector" if is_vector(parameter) else "embedding")
        for name, parameter in network.named_parameters()
    }


def _depths(network: nn.Module, base_layers: int) -> dict[str, float]:
    """Return L of `parametrize` for each parameter of a Transformer's layers, by the parameter's name.

    L is the number of layers in the parameter's `Stack`, divided by `base_layers`.
    """
    return {
        f"{place}.layers.{name}": len(stack.layers) / base_layers
        for place, stack in network.named_modules()
        if isinstance(stack, Stack)
        for name, _ in stack.layers.named_parameters()
    }


def factors_of(
    role: Role, parameter: Tensor, base: Tensor, size: float, token_factor: float, config: ModelConfig
) -> Factors:
    """Return the factors of one parameter, by its role and its base parameter.

    `size` is m L, and `token_factor` is r, in the symbols of `parametrize`.
    """
    if role == "vector":
        return Factors(rate=config.gain_rate, epsilon=1 / size)
    if role == "matrix":
        i = parameter.shape[1] / base.shape[1]
        return Factors(rate=1 / i, muon=i**-0.5, epsilon=1 / size)
    m = parameter.numel() / base.numel()
    rate = config.embedding_rate or (_RATE_OF_MANY if len(parameter) >= MANY_TOKENS else _RATE_OF_FEW)
    rates = {"embedding": rate / token_factor, "input": 1.0}
    return Factors(rate=rates.get(role, m**-0.5), epsilon=m**-0.5)


def _spread(role: Role, glorot: float | None, parameter: Tensor, base: Tensor) -> float:
    """Return the factor by which a parameter's initial values are multiplied; `glorot` is the result of `_glorot`."""
    m, i = parameter.numel() / base.numel(), parameter.shape[-1] / base.shape[-1]
    match role:
        case "tied":
            return m**-0.5
        case "head" if glorot is not None:
            return min(m**0.5, glorot * m**-0.5)
        case "matrix" if glorot is not None:
            return glorot * i**-0.5
        case "input" if glorot is not None:
            return glorot
    return 1.0


def _glorot(module: nn.Module, name: str, base: nn.Module) -> float | None:
    """Return the Glorot bound of a parameter in the base network, divided by the bound in this network.

    `initialise` draws linear weights and the input weights of recurrent cells uniformly from -bound to bound. The bound
    is sqrt(6 / (inputs + outputs)). For a parameter with another initial distribution, return None.
    """
    if isinstance(module, nn.RNNBase) and isinstance(base, nn.RNNBase) and name.startswith("weight_ih"):
        # Each gate is a separate map.
        own, of_base = (cells.get_parameter(name).shape[1] + cells.hidden_size for cells in (module, base))
    elif isinstance(module, nn.Linear) and not isinstance(module, Map) and name == "weight":
        own, of_base = (sum(layer.get_parameter(name).shape) for layer in (module, base))
    else:
        return None
    return sqrt(own / of_base)
