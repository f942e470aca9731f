"""Encodings of token positions; the encodings are added to the input or used in the attention."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.errors import SequenceTooLongError

BASE = 10_000.0  # Vaswani et al. 2017, section 3.5: wavelengths from 2 pi to 10,000 * 2 pi


def sinusoidal_table(length: int, d_model: int) -> Tensor:
    """Return the table (length, d_model) of PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d)).

    For d = 4: sin p, cos p, sin p/100, cos p/100.

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
    """Rotary positions: the cosine and sine of the angles, each (time, width / 2).

    As in GPT-NeoX, number i of a head forms a pair with number i + width / 2, and not with its neighbour. This differs
    from the paper only by a permutation of the numbers of a head.

    Source: Su et al. 2021, "RoFormer", section 3.2.2.
    """

    cosine: Tensor
    sine: Tensor

    @classmethod
    def of(cls, length: int, width: int, device: torch.device, start: int = 0) -> "Rotation":
        """Return the rotation for `length` positions from `start` on; `width` (numbers per head) must be even."""
        position = torch.arange(start, start + length, dtype=torch.float32, device=device).unsqueeze(1)
        frequency = BASE ** -(torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)
        angle = position * frequency
        return cls(angle.cos(), angle.sin())

    def turn(self, x: Tensor) -> Tensor:
        """Return `x` (batch, heads, time, width) with each pair of numbers rotated by its token's angle."""
        first, second = x.chunk(2, dim=-1)
        cosine, sine = self.cosine.to(x.dtype), self.sine.to(x.dtype)
        return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def alibi_slopes(num_heads: int) -> Tensor:
    """Return the slopes of n heads, (n,): if n is a power of two, the sequence 2^(-8/n), 2^(-16/n), ..., 2^-8.

    For other n, let p be the largest power of two below n. The result has the p slopes of p heads, followed by n - p
    of the slopes of 2p heads: the first, the third, the fifth, ...

    Source: Press, Smith, Lewis 2022, "Train short, test long", section 3 and the authors' code.
    """
    below = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (i + 1) / below) for i in range(below)]
    slopes += [2 ** (-8 * (i + 1) / (2 * below)) for i in range(0, 2 * (num_heads - below), 2)]
    return torch.tensor(slopes)


def alibi_bias(slopes: Tensor, queries: int, keys: int) -> Tensor:
    """Return the bias -slope * |distance|, (heads, queries, keys); the last query and the last key share a position.

    Source: Press et al. 2022; for the symmetric form in encoders, the authors' repository, issue 5.
    """
    query = torch.arange(keys - queries, keys, device=slopes.device).unsqueeze(1)
    key = torch.arange(keys, device=slopes.device)
    return -slopes[:, None, None] * (query - key).abs()
