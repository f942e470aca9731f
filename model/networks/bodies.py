"""The interfaces of bodies: the encoders and decoders between the embedding and the head of a network."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

from torch import Tensor

from model.data.packing import Packing


class Source(NamedTuple):
    """A batch of encoded source sequences, which a decoder reads.

    Attributes:
        outputs: the representation of each token, shape (batch, source time, width); if packed, shape (1, tokens,
            width).
        attention_mask: shape (batch, source time), True = a token, False = padding; None = no padding.
        more: further tensors. A recurrent network has the states after the last token, each of the shape (layers,
            batch, width). A convolutional network has the embeddings, shape (batch, source time, d_model).
        packing: the positions of packed `outputs` in the padded batch, with the same mask as `attention_mask`; None =
            `outputs` are not packed.
    """

    outputs: Tensor
    attention_mask: Tensor | None
    more: tuple[Tensor, ...] = ()
    packing: Packing | None = None


class State(Protocol):
    """The state of a decoder between two tokens.

    Each row belongs to one target sequence. In a beam search, the rows of a source sequence follow each other, and each
    source sequence has the same number of rows.
    """

    @property
    def length(self) -> int:
        """The number of decoded tokens."""

    def initial(self) -> Self:
        """Return a state with the same sources, but without decoded tokens."""

    def select(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Keep only the given rows and sources (None = all sources), in the given order; a row may occur twice."""


class StoresWeights(Protocol):
    """An attention module that can store its attention weights.

    `stored_weights` collects one tensor (batch, heads, time, keys) per call; None = store nothing.
    """

    stored_weights: list[Tensor] | None


class EncoderBody(Protocol):
    """Encodes a whole sequence; `width` is the number of outputs per token."""

    width: int

    def __call__(self, x: Tensor, attention_mask: Tensor | Packing | None) -> Tensor:
        """Return every token's representation: (batch, time, d_model) -> (batch, time, width).

        In `attention_mask` (batch, time), True is a token, and False is padding; None = no padding. The result at
        padding is undefined. A Transformer also takes packed sequences, (1, tokens, d_model), with their packing as the
        mask.
        """

    def read(self, x: Tensor, attention_mask: Tensor | None) -> Source:
        """Return the encoded sequence for a decoder of the same family; for the arguments, see `__call__`."""

    def attentions(self) -> Sequence[StoresWeights]:
        """Return the self-attention modules, layer by layer."""


class DecoderBody(Protocol):
    """Computes `width` outputs for each token; from these outputs, a head predicts the next token."""

    width: int

    def __call__(
        self,
        x: Tensor,
        source: Source | None = None,
        state: State | None = None,
        *,
        attention_mask: Packing | None = None,
    ) -> Tensor:
        """Return every token's causal representation: (batch, time, d_model) -> (batch, time, width).

        With a state, `x` follows the tokens in the state and is appended to the state; `source` is then ignored. Only a
        Transformer takes packed sequences, with their packing as the mask.
        """

    def begin(self, source: Source | None = None) -> State:
        """Return the state before the first token."""

    def attentions(self) -> Sequence[StoresWeights]:
        """Return the self-attention modules, layer by layer."""

    def source_attentions(self) -> Sequence[StoresWeights]:
        """Return the cross-attention modules, layer by layer."""
