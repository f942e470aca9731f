"""What lies between embedding and head, for every family: an encoder, a decoder, or both."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

from torch import Tensor

from model.data.packing import Packing


class Source(NamedTuple):
    """A sequence that was read for a decoder.

    Attributes:
        outputs: (batch, source time, width), what the encoder says of each token.
        attention_mask: (batch, source time), True = a token, False = padding; None = no padding.
        more: what a family's decoder needs besides: recurrent, the states after the last token, (layers, batch, width)
            each; convolutional, the embeddings, (batch, source time, d_model).
        packing: how the outputs lie, (1, tokens, width), where they are packed; the mask is then that of the packing.
    """

    outputs: Tensor
    attention_mask: Tensor | None
    more: tuple[Tensor, ...] = ()
    packing: Packing | None = None


class State(Protocol):
    """What a decoder keeps from one token to the next.

    There may be several times as many rows as sources, as in a beam: so many rows, one after the other, share a source.
    """

    @property
    def length(self) -> int:
        """How many tokens have been decoded."""

    def initial(self) -> Self:
        """Return the state at the first token, of the same sources."""

    def select(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Keep these rows, in this order, and these sources (None = all); a row may be listed twice."""


class KeepsWeights(Protocol):
    """An attention that can keep its weights, (batch, heads, time, keys) for each call; None = they are not kept."""

    kept_weights: list[Tensor] | None


class EncoderBody(Protocol):
    """Reads a whole sequence; `width` = numbers per token that it gives."""

    width: int

    def __call__(self, x: Tensor, attention_mask: Tensor | Packing | None) -> Tensor:
        """Return every token's representation: (batch, time, d_model) -> (batch, time, width).

        `attention_mask` (batch, time): True = a token, False = padding, where the result is meaningless; None = no
        padding. A Transformer takes packed sequences too, (1, tokens, d_model), with their packing as the mask.
        """

    def read(self, x: Tensor, attention_mask: Tensor | None) -> Source:
        """Return the sequence as a decoder of the same family needs it; arguments as above."""

    def attentions(self) -> Sequence[KeepsWeights]:
        """Return the attentions of the sequence to itself, layer by layer."""


class DecoderBody(Protocol):
    """Says of every token what may follow it; `width` = numbers per token that it gives."""

    width: int

    def __call__(
        self,
        x: Tensor,
        source: Source | None = None,
        state: State | None = None,
        *,
        attention_mask: Packing | None = None,
    ) -> Tensor:
        """Return every token's representation, which depends on no later one: (batch, time, d_model) to (..., width).

        With a state, `x` follows the tokens that it has seen, and is added to them; the state's source counts. Only a
        Transformer takes packed sequences, with their packing as the mask.
        """

    def begin(self, source: Source | None = None) -> State:
        """Return the state before the first token."""

    def attentions(self) -> Sequence[KeepsWeights]:
        """Return the attentions of the sequence to itself, layer by layer."""

    def source_attentions(self) -> Sequence[KeepsWeights]:
        """Return the attentions to the source, layer by layer."""
