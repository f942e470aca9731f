"""The interfaces of bodies, which are the part of a network between embedding and head: encoders and decoders."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

from torch import Tensor

from model.data.packing import Packing


class Source(NamedTuple):
    """An encoded sequence for a decoder.

    Attributes:
        outputs: (batch, source time, width), the representation of each token.
        attention_mask: (batch, source time), True = a token, False = padding; None = no padding.
        more: further tensors for the decoder of a family. Recurrent: the states after the last token, (layers, batch,
            width) each. Convolutional: the embeddings, (batch, source time, d_model).
        packing: the packing of the outputs, which are then (1, tokens, width) with the mask of the packing; None = they
            are not packed.
    """

    outputs: Tensor
    attention_mask: Tensor | None
    more: tuple[Tensor, ...] = ()
    packing: Packing | None = None


class State(Protocol):
    """The state of a decoder between tokens.

    In a beam search, the number of rows is a multiple of the number of sources, and consecutive rows share a source.
    """

    @property
    def length(self) -> int:
        """The number of decoded tokens."""

    def initial(self) -> Self:
        """Return the state before the first token, with the same sources."""

    def select(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Select rows and sources (None = all), in the given order; a row may occur twice."""


class StoresWeights(Protocol):
    """An attention that can store its weights, (batch, heads, time, keys) per call; None = it does not store them."""

    stored_weights: list[Tensor] | None


class EncoderBody(Protocol):
    """Encodes a whole sequence; `width` is the number of outputs per token."""

    width: int

    def __call__(self, x: Tensor, attention_mask: Tensor | Packing | None) -> Tensor:
        """Return every token's representation: (batch, time, d_model) -> (batch, time, width).

        `attention_mask` (batch, time): True = a token, False = padding, where the result is undefined; None = no
        padding. A Transformer also takes packed sequences, (1, tokens, d_model), with their packing as the mask.
        """

    def read(self, x: Tensor, attention_mask: Tensor | None) -> Source:
        """Return the encoded sequence for a decoder of the same family; arguments as for `__call__`."""

    def attentions(self) -> Sequence[StoresWeights]:
        """Return the self-attentions, layer by layer."""


class DecoderBody(Protocol):
    """Predicts the token after each token; `width` is the number of outputs per token."""

    width: int

    def __call__(
        self,
        x: Tensor,
        source: Source | None = None,
        state: State | None = None,
        *,
        attention_mask: Packing | None = None,
    ) -> Tensor:
        """Return every token's representation, which depends on no later token: (batch, time, d_model) -> (..., width).

        With a state, `x` follows the tokens of the state and is added to them, and the source is that of the state.
        Only a Transformer takes packed sequences, with their packing as the mask.
        """

    def begin(self, source: Source | None = None) -> State:
        """Return the state before the first token."""

    def attentions(self) -> Sequence[StoresWeights]:
        """Return the self-attentions, layer by layer."""

    def source_attentions(self) -> Sequence[StoresWeights]:
        """Return the cross-attentions, layer by layer."""
