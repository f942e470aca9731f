"""The interfaces of encoders and decoders, which form the body of a network, between embedding and head."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

from torch import Tensor

from model.data.packing import Packing


class Source(NamedTuple):
    """An encoded sequence for a decoder.

    Attributes:
        outputs: (batch, source time, width), the representation of each token.
        attention_mask: (batch, source time), True = a token, False = padding; None = no padding.
        more: more tensors, which depend on the family. Recurrent: the states after the last token, (layers, batch,
            width) each. Convolutional: the embeddings, (batch, source time, d_model).
        packing: the packing if the outputs are packed; None = they are not packed. Packed outputs are (1, tokens,
            width), and `attention_mask` is the mask in the packing.
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
    """An attention module that can store its weights.

    `stored_weights` collects one tensor (batch, heads, time, keys) per call; None = store nothing.
    """

    stored_weights: list[Tensor] | None


class EncoderBody(Protocol):
    """Encodes a whole sequence; `width` is the number of outputs per token."""

    width: int

    def __call__(self, x: Tensor, attention_mask: Tensor | Packing | None) -> Tensor:
        """Return every token's representation: (batch, time, d_model) -> (batch, time, width).

        In `attention_mask` (batch, time), True is a token, and False is padding, for which the result is undefined;
        None = no padding. A Transformer also takes packed sequences, (1, tokens, d_model); their packing is the mask.
        """

    def read(self, x: Tensor, attention_mask: Tensor | None) -> Source:
        """Return the encoded sequence for a decoder of the same family; the arguments are those of `__call__`."""

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

        With a state, `x` follows the tokens in the state and is appended to them; the source of the state replaces
        `source`. Only a Transformer takes packed sequences; their packing is the mask.
        """

    def begin(self, source: Source | None = None) -> State:
        """Return the state before the first token."""

    def attentions(self) -> Sequence[StoresWeights]:
        """Return the self-attentions, layer by layer."""

    def source_attentions(self) -> Sequence[StoresWeights]:
        """Return the cross-attentions, layer by layer."""
