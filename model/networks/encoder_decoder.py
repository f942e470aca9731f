"""The complete Transformer: a source sequence in, a target sequence out."""

from torch import Tensor, nn

from model.config.network import EncoderDecoderConfig
from model.networks.embedding import InputEmbedding, TokenHead
from model.networks.initialise import initialise
from model.networks.transformer.cache import StackCache
from model.networks.transformer.stack import Stack


class EncoderDecoder(nn.Module):
    """Encoder over the source; causal decoder over the target that attends to the encoder's output.

    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(
        self, config: EncoderDecoderConfig, *, source_size: int, target_size: int, max_length: int, shared: bool
    ) -> None:
        """Build the network; `shared`: source and target have one vocabulary and so one embedding."""
        super().__init__()
        assert not shared or source_size == target_size
        self.source_embedding = InputEmbedding(
            config, vocabulary_size=source_size, features=None, max_length=max_length
        )
        self.target_embedding = InputEmbedding(
            config, vocabulary_size=target_size, features=None, max_length=max_length
        )
        if shared:
            self.target_embedding.tokens = self.source_embedding.tokens
        self.encoder = Stack(config, config.num_layers)
        self.decoder = Stack(config, config.num_decoder_layers or config.num_layers, causal=True, has_source=True)
        self.head = TokenHead(config.d_model, target_size, self.target_embedding if config.tied_embeddings else None)
        initialise(self)

    def forward(self, source: Tensor, source_real: Tensor | None, target: Tensor) -> Tensor:
        """Return each next target token's logits, given the source and the earlier target tokens.

        Args:
            source: (batch, source time) token numbers.
            source_real: (batch, source time), True = a token, False = padding; None = no padding.
            target: (batch, target time) token numbers, a start token first; padding, if any, at the end.

        Returns:
            (batch, target time, target vocabulary): at place t the logits of token t + 1.
        """
        return self.decode(target, self.encode(source, source_real), source_real)

    def encode(self, source: Tensor, source_real: Tensor | None) -> Tensor:
        """Return the encoded source: (batch, source time) -> (batch, source time, d_model)."""
        return self.encoder(self.source_embedding(source), source_real)

    def decode(
        self, target: Tensor, encoded: Tensor, source_real: Tensor | None, cache: StackCache | None = None
    ) -> Tensor:
        """Return the logits as `forward` does, for an encoded source; with a cache, `target` follows its tokens."""
        start = 0 if cache is None else cache.length
        embedded = self.target_embedding(target, start)
        decoded = self.decoder(embedded, source=encoded, source_real=source_real, cache=cache)
        return self.head(decoded)

    def new_cache(self) -> StackCache:
        """Return an empty cache."""
        return StackCache.of(len(self.decoder.layers))
