"""Encodings of token positions; the encodings are added to the input or used in the attention."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.errors import SequenceTooLongError

BASE = 10_000.0  # Vaswani et al. 2017, section 3.5: wavelengths from 2 pi to 10,000 * 2 pi


def sinusoidal_table(length: int, d_model: int) -> Tensor:
    """Return the table of the sinusoidal encodings of positions, shape (length, d_model).

    Row p has sin(p / 10000^(2i / d_model)) in column 2i, and the cosine of the same angle in column 2i + 1. For
    d_model = 4, row p is: sin(p), cos(p), sin(p / 100), cos(p / 100).

    Source: Vaswani et al. 2017, section 3.5. A widely copied implementation wrongly doubles the exponent in odd
    columns.
    """
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    exponent = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
    angle = position / BASE**exponent
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model].float()


class SinusoidalPositions(nn.Module):
    """Adds the sinusoidal table to an input of any length."""

    table: Tensor

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("table", sinusoidal_table(max_length, d_model), persistent=False)

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:
        """Return `x` (batch, time, d_model) plus the vectors of its positions.

        `start` is the position of the first token, or a tensor (time,) with the position of each token.
        """
        if isinstance(start, Tensor):
            return x + self.table[start]
        end = start + x.shape[1]
        if end > self.table.shape[0]:
            self.table = sinusoidal_table(2 * end, self.d_model).to(x.device)
        return x + self.table[start:end]


class LearnedPositions(nn.Module):
    """Adds one learned vector per position to the input.

    Source: Gehring et al. 2017, "Convolutional sequence to sequence learning", section 3.1.
    """

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(max_length, d_model)

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:
        """Return `x` (batch, time, d_model) plus the vectors of its positions.

        `start` is the position of the first token, or a tensor (time,) with the position of each token.

        Raises:
            SequenceTooLongError: a token's position is larger than every learned position. There is no such check if
                `start` is a tensor.
        """
        if isinstance(start, Tensor):
            return x + functional.embedding(start, self.embedding.weight)
        end, limit = start + x.shape[1], self.embedding.num_embeddings
        if end > limit:
            raise SequenceTooLongError(
                f"the sequence must have at most {limit} tokens (learned positions), given {end}; shorten "
                "the sequence, or train with a larger data.max_length (for language modelling: data.context)"
            )
        return x + self.embedding.weight[start:end]


class NoPositions(nn.Module):
    """Adds nothing to the input, for networks without positions or with positions in the attention."""

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:  # noqa: ARG002 -- the same call as its siblings
        """Return `x` itself."""
        return x


def input_positions(name: str, max_length: int, d_model: int) -> nn.Module:
    """Return the module that adds positions to the embedded input (batch, time, d_model)."""
    if name == "sinusoidal":
        return SinusoidalPositions(max_length, d_model)
    if name == "learned":
        return LearnedPositions(max_length, d_model)
    return NoPositions()


@dataclass(frozen=True)
class Rotation:
    """The angles of rotary positions, by which `turn` rotates pairs of components of queries and keys.

    As in GPT-NeoX, component i of a query or key forms a pair with component i + width / 2. In the paper, neighbouring
    components form a pair. The two versions differ only by a permutation of the components.

    Attributes:
        cosine, sine: (time, width / 2), the cosine and the sine of the angle for each position and pair.

    Source: Su et al. 2021, "RoFormer", section 3.2.2.
    """

    cosine: Tensor
    sine: Tensor

    @classmethod
    def of(cls, length: int, width: int, device: torch.device, start: int = 0) -> "Rotation":
        """Return the rotation for `length` positions from `start` on; `width`, the width of a key, must be even."""
        position = torch.arange(start, start + length, dtype=torch.float32, device=device).unsqueeze(1)
        frequency = BASE ** -(torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)
        angle = position * frequency
        return cls(angle.cos(), angle.sin())

    def turn(self, x: Tensor) -> Tensor:
        """Return `x` (batch, heads, time, width), in which each pair of components is rotated by the pair's angle."""
        first, second = x.chunk(2, dim=-1)
        cosine, sine = self.cosine.to(x.dtype), self.sine.to(x.dtype)
        return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def alibi_slopes(num_heads: int) -> Tensor:
    """Return the slope of each head for ALiBi, shape (num_heads,).

    If n = `num_heads` is a power of two, the slopes are 2^(-8/n), 2^(-16/n), ..., 2^-8. Otherwise let p be the largest
    power of two below n. The first p slopes are the slopes for p heads. The other n - p slopes are the first, third,
    fifth, ... of the slopes for 2p heads.

    Source: Press, Smith, Lewis 2022, "Train short, test long", section 3 and the authors' code.
    """
    below = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (i + 1) / below) for i in range(below)]
    slopes += [2 ** (-8 * (i + 1) / (2 * below)) for i in range(0, 2 * (num_heads - below), 2)]
    return torch.tensor(slopes)


def alibi_bias(slopes: Tensor, queries: int, keys: int) -> Tensor:
    """Return ALiBi's bias -slope * |query position - key position|, shape (heads, queries, keys).

    The last query and the last key have the same position.

    Source: Press et al. 2022; for the symmetric form in encoders, the authors' repository, issue 5.
    """
    query = torch.arange(keys - queries, keys, device=slopes.device).unsqueeze(1)
    key = torch.arange(keys, device=slopes.device)
    return -slopes[:, None, None] * (query - key).abs()
