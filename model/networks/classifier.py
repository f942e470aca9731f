"""A network that predicts one label for a sequence."""

import torch
from torch import Tensor, nn

from model.config.networks.network import Encoder
from model.data.packing import Packing, first_position
from model.networks.embedding import InputEmbedding
from model.networks.families import build_encoder
from model.networks.initialise import initialise
from model.networks.roles import LinearHead


class Classifier(nn.Module):
    """An encoder, then the pooling of its outputs into one vector, then a linear layer that computes the logits."""

    def __init__(
        self,
        config: Encoder,
        *,
        num_classes: int,
        max_length: int,
        vocabulary_size: int | None = None,
        features: int | None = None,
    ) -> None:
        super().__init__()
        self.embedding = InputEmbedding(
            config, vocabulary_size=vocabulary_size, features=features, max_length=max_length
        )
        self.encoder = build_encoder(config)
        self.pooling = config.pooling
        self.head = LinearHead(self.encoder.width, num_classes)
        initialise(self)

    def forward(self, x: Tensor, attention_mask: Tensor | Packing | None) -> Tensor:
        """Return the logits of the classes.

        Args:
            x: (batch, time) token numbers, or (batch, time, features); if packed, (1, tokens) or (1, tokens, features).
            attention_mask: (batch, time) boolean, True = a token, False = padding; None = no padding. If `x` is packed,
                the `Packing` of `x` takes the place of the mask.

        Returns:
            (batch, classes).
        """
        encoded = self.encoder(self.embedding(x, first_position(attention_mask)), attention_mask)
        if isinstance(attention_mask, Packing):
            encoded, attention_mask = attention_mask.pad(encoded), attention_mask.attention_mask
        return self.head(pooled(encoded, attention_mask, self.pooling))


def pooled(encoded: Tensor, attention_mask: Tensor | None, pooling: str) -> Tensor:
    """Pool each sequence into one vector: (batch, time, width) -> (batch, width); padding is left out."""
    match pooling:
        case "first":
            return encoded[:, 0]
        case "max":
            return (
                encoded if attention_mask is None else encoded.masked_fill(~attention_mask.unsqueeze(-1), -torch.inf)
            ).amax(dim=1)
        case _:
            if attention_mask is None:
                return encoded.mean(dim=1)
            share = attention_mask.to(encoded.dtype) / attention_mask.sum(dim=1, keepdim=True)
            return (encoded * share.unsqueeze(-1)).sum(dim=1)
