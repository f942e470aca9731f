"""A network that predicts one label per word."""

from torch import Tensor, nn

from model.config.networks.network import Encoder
from model.data.packing import Packing, first_position
from model.networks.embedding import InputEmbedding
from model.networks.families import build_encoder
from model.networks.initialise import initialise
from model.networks.roles import LinearHead


class Tagger(nn.Module):
    """An encoder, then a linear layer that computes the logits of the tags for each word.

    For each word, the encoder reads the sum of two embeddings: of the word, and of the word's ending.
    """

    def __init__(
        self, config: Encoder, *, vocabulary_size: int, num_endings: int, num_tags: int, max_length: int
    ) -> None:
        super().__init__()
        self.embedding = InputEmbedding(config, vocabulary_size=vocabulary_size, features=None, max_length=max_length)
        self.endings = nn.Embedding(num_endings, config.d_model)
        self.encoder = build_encoder(config)
        self.head = LinearHead(self.encoder.width, num_tags)
        initialise(self)

    def forward(self, x: Tensor, attention_mask: Tensor | Packing | None) -> Tensor:
        """Return the logits of the tags for each word.

        Args:
            x: (batch, time, 2), the index of each word and the index of the word's ending; if packed, (1, tokens, 2).
            attention_mask: (batch, time) boolean, True = a word, False = padding; None = no padding. If `x` is packed,
                the `Packing` of `x` takes the place of the mask.

        Returns:
            (batch, time, tags); if `x` is packed, (1, tokens, tags).
        """
        words, endings = x.unbind(-1)
        embedded = self.embedding(words, first_position(attention_mask), also=self.endings(endings))
        return self.head(self.encoder(embedded, attention_mask))
