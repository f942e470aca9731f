"""A Transformer encoder that gives a whole sequence one label."""

from torch import Tensor, nn

from model.config.network import ModelConfig
from model.networks.embedding import InputEmbedding
from model.networks.initialise import initialise
from model.networks.transformer.stack import Stack


class Classifier(nn.Module):
    """Encoder, mean over the real tokens, linear layer over the classes."""

    def __init__(
        self,
        config: ModelConfig,
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
        self.encoder = Stack(config, config.num_layers)
        self.head = nn.Linear(config.d_model, num_classes)
        initialise(self)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Return each class's logit.

        Args:
            x: (batch, time) token numbers, or (batch, time, features).
            real: (batch, time) boolean, True = a token, False = padding; None = no padding.

        Returns:
            (batch, classes).
        """
        encoded = self.encoder(self.embedding(x), real)
        if real is None:
            return self.head(encoded.mean(dim=1))
        share = real.to(encoded.dtype) / real.sum(dim=1, keepdim=True)
        return self.head((encoded * share.unsqueeze(-1)).sum(dim=1))
