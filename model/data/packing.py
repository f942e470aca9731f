"""Packing joins the sequences of a batch end to end, so that no layer spends time on padding."""

from typing import NamedTuple

from torch import Tensor


class Packing(NamedTuple):
    """The positions of packed tokens in the padded batch; only attention needs the padded form.

    A token attends only to the tokens of its own sequence. Attention over packed tokens would compute scores for all
    pairs of tokens in the batch, and mask most of them. To avoid this, each attention layer pads its queries, keys and
    values, and uses the kernels and masks for padded batches.

    torch 2.13 has two kernels for packed sequences, but both lack needed features. `varlen_attn` supports neither
    dropout nor float32. The kernel for nested tensors supports no bias, and computes no gradients in float32.

    Attributes:
        places: shape (tokens,), ascending. The place of a token in the flattened padded batch is row * time + position.
        attention_mask: shape (batch, time), True = a token, False = padding.

    Source: Zhai et al. 2023, "ByteTransformer", the zero padding algorithm.
    """

    places: Tensor
    attention_mask: Tensor

    @property
    def positions(self) -> Tensor:
        """The position of each token in its sequence, counted from 0; shape (tokens,)."""
        return self.places % self.attention_mask.shape[1]

    def pad(self, packed: Tensor) -> Tensor:
        """Convert a packed tensor (1, tokens, ...) into a padded tensor (batch, time, ...), with zeros as padding."""
        batch, time = self.attention_mask.shape
        empty = packed.new_zeros(batch * time, *packed.shape[2:])
        return empty.index_copy(0, self.places, packed.squeeze(0)).view(batch, time, *packed.shape[2:])

    def pack(self, padded: Tensor) -> Tensor:
        """Convert a padded tensor (batch, time, ...) into a packed tensor (1, tokens, ...)."""
        return padded.flatten(0, 1).index_select(0, self.places).unsqueeze(0)


def first_position(attention_mask: Tensor | Packing | None) -> int | Tensor:
    """Return the argument `start` of `InputEmbedding.forward`.

    The argument is 0, the position of the first token of each sequence. If the sequences are packed, the argument has
    the position of every token instead, shape (tokens,).
    """
    return attention_mask.positions if isinstance(attention_mask, Packing) else 0
