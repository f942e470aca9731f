"""Sequences of a batch laid end to end, so that no layer computes padding."""

from typing import NamedTuple

from torch import Tensor


class Packing(NamedTuple):
    """Where the tokens of packed sequences are in a padded batch, which attention alone needs.

    A token attends only to those of its own sequence. One mask of blocks over all tokens would have (tokens, tokens)
    numbers; so each attention has its queries, keys and values padded, which takes the kernels and the masks of padded
    batches: without a mask where it is causal. Of torch 2.13's kernels for packed sequences `varlen_attn` has neither
    dropout nor float32, and that of nested tensors no bias, and no gradients in float32.

    Attributes:
        places: (tokens,), row * time + position of each token; the rows one after the other.
        attention_mask: (batch, time), True = a token, False = padding.

    Source: Zhai et al. 2023, "ByteTransformer", the zero padding algorithm.
    """

    places: Tensor
    attention_mask: Tensor

    @property
    def positions(self) -> Tensor:
        """(tokens,), the place of each token in its sequence, from 0."""
        return self.places % self.attention_mask.shape[1]

    def pad(self, packed: Tensor) -> Tensor:
        """Return (1, tokens, ...) as (batch, time, ...), with zeros as padding."""
        batch, time = self.attention_mask.shape
        empty = packed.new_zeros(batch * time, *packed.shape[2:])
        return empty.index_copy(0, self.places, packed.squeeze(0)).view(batch, time, *packed.shape[2:])

    def pack(self, padded: Tensor) -> Tensor:
        """Return (batch, time, ...) as (1, tokens, ...), without the padding."""
        return padded.flatten(0, 1).index_select(0, self.places).unsqueeze(0)


def first_position(attention_mask: Tensor | Packing | None) -> int | Tensor:
    """Return the position of a batch's first tokens; of packed sequences that of each token, (tokens,)."""
    return attention_mask.positions if isinstance(attention_mask, Packing) else 0
