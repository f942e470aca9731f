"""A Transformer decoder that predicts each next token of a text."""

from torch import Tensor, nn

from model.config.network import DecoderConfig
from model.networks.embedding import InputEmbedding, TokenHead
from model.networks.initialise import initialise
from model.networks.transformer.cache import StackCache
from model.networks.transformer.stack import Stack


class LanguageModel(nn.Module):
    """Embedding, causal stack, linear layer over the vocabulary.

    Source: Radford et al. 2018, "Improving language understanding by generative pre-training".
    """

    def __init__(self, config: DecoderConfig, *, vocabulary_size: int, max_length: int) -> None:
        super().__init__()
        self.embedding = InputEmbedding(config, vocabulary_size=vocabulary_size, features=None, max_length=max_length)
        self.decoder = Stack(config, config.num_layers, causal=True)
        self.head = TokenHead(config.d_model, vocabulary_size, self.embedding if config.tied_embeddings else None)
        initialise(self)

    def forward(self, tokens: Tensor, cache: StackCache | None = None) -> Tensor:
        """Return each next token's logits.

        Args:
            tokens: (batch, time) token numbers; padding, if any, at the end.
            cache: with it, `tokens` follow those in the cache, and are added to it.

        Returns:
            (batch, time, vocabulary): at place t the logits of token t + 1.
        """
        start = 0 if cache is None else cache.length
        return self.head(self.decoder(self.embedding(tokens, start), cache=cache))

    def new_cache(self) -> StackCache:
        """Return an empty cache."""
        return StackCache.of(len(self.decoder.layers))
