"""A network of an encoder and a decoder; it turns a source sequence into a target sequence."""

from torch import Tensor, nn

from model.config.networks.network import EncoderDecoder as EncoderDecoderConfig
from model.data.packing import Packing, first_position
from model.networks.bodies import Source, State
from model.networks.embedding import InputEmbedding, Reader, TokenHead
from model.networks.families import build_decoder, build_encoder
from model.networks.initialise import initialise


class EncoderDecoder(nn.Module):
    """An encoder of the source, and a decoder of the target; the decoder reads the encoder's outputs."""

    def __init__(
        self, config: EncoderDecoderConfig, *, source_size: int, target_size: int, max_length: int, shared: bool
    ) -> None:
        """Build the network; with `shared`, source and target have the same vocabulary and embedding."""
        super().__init__()
        assert not shared or source_size == target_size
        self.source_embedding = InputEmbedding(
            config,
            vocabulary_size=source_size,
            features=None,
            max_length=max_length,
            is_tied=config.tied_embeddings and shared,
        )
        self.target_embedding = InputEmbedding(
            config,
            vocabulary_size=target_size,
            features=None,
            max_length=max_length,
            is_tied=config.tied_embeddings,
        )
        if shared:
            self.target_embedding.tokens = self.source_embedding.tokens
        self.encoder = build_encoder(config)
        self.decoder = build_decoder(config)
        tied = self.target_embedding if config.tied_embeddings else None
        self.head = TokenHead(config, self.decoder.width, target_size, tied)
        initialise(self)

    def forward(
        self,
        source: Tensor,
        source_mask: Tensor | Packing | None,
        target: Tensor,
        target_packing: Packing | None = None,
        read: Reader | None = None,
    ) -> Tensor:
        """Return the logits of each next target token, from the source and the earlier target tokens.

        Args:
            source: (batch, source time) token numbers.
            source_mask: (batch, source time), True = a token, False = padding; None = no padding. A packed source has
                the shape (1, tokens), and its packing takes the place of the mask.
            target: (batch, target time) token numbers, with a start token first and padding at the end.
            target_packing: the packing of the target; None = not packed. A packed target has the shape (1, tokens), and
                the result is then packed, too.
            read: a function with two arguments, the head's input and the head. If it is given, return its result
                instead of the logits.

        Returns:
            (batch, target time, target vocabulary): at position t the logits of token t + 1.
        """
        embedded = self.source_embedding(source, first_position(source_mask))
        if isinstance(source_mask, Packing):
            encoded = Source(self.encoder(embedded, source_mask), source_mask.attention_mask, packing=source_mask)
        else:
            encoded = self.encoder.read(embedded, source_mask)
        embedded = self.target_embedding(target, first_position(target_packing))
        if target_packing is None:
            decoded = self.decoder(embedded, source=encoded)
        else:
            decoded = self.decoder(embedded, source=encoded, attention_mask=target_packing)
        return self.head(decoded) if read is None else read(decoded, self.head)

    def begin(self, source: Tensor, source_mask: Tensor | None) -> State:
        """Encode a source as in `forward`, and return the decoding state before the first target token."""
        return self.decoder.begin(self.encoder.read(self.source_embedding(source), source_mask))

    def advance(self, target: Tensor, state: State) -> Tensor:
        """Append the given target tokens to the tokens in `state`.

        Return, for each appended token, the logits of the token that follows it.
        """
        return self.head(self.decoder(self.target_embedding(target, state.length), state=state))
