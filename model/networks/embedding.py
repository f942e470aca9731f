"""The embedding of tokens, or of rows of numbers; and the head over a vocabulary."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from model.config.networks.convolutional import ConvolutionalConfig
from model.config.networks.network import ModelConfig, Writing
from model.config.networks.transformer import TransformerConfig
from model.networks.roles import Head
from model.networks.transformer.positions import input_positions

# Initial standard deviations; the docstring of `initialise` gives their sources.
_TIED_STD = 0.02
_PLAIN_STD = 0.1
# The epsilon of the root mean square. It is small, because the initial numbers of tied tokens are as small as 1e-3.
_SMALLEST = 1e-12

# A function that receives the input of the head, (batch, time, width), and the head.
Reader = Callable[[Tensor, nn.Module], Any]


class InputEmbedding(nn.Module):
    """Maps tokens, or rows of numbers, to vectors; then adds positions and applies dropout.

    If token vectors are not tied to the head, a Transformer multiplies them by sqrt(d_model) (Vaswani et al. 2017,
    section 3.4). Other networks do not scale them.

    If token vectors are tied to the head, each vector is first divided by its root mean square (Zhang, Sennrich 2019).
    The reason is that tied vectors are initially as small as the weights of a head, and grow in training. A Transformer
    uses the result as it is. Other networks multiply the result by 0.1.

    Attributes:
        initial_std: the initial standard deviation of token vectors.
        position_std: the initial standard deviation of learned position vectors.
        scale: the factor of token vectors.
        is_normed: whether token vectors are divided by their root mean square before scaling.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        vocabulary_size: int | None,
        features: int | None,
        max_length: int,
        is_tied: bool = False,
    ) -> None:
        """Build an embedding of token numbers (give `vocabulary_size`) or of rows of numbers (give `features`)."""
        super().__init__()
        assert (vocabulary_size is None) != (features is None)
        self.scale, self.initial_std, self.position_std = 1.0, _PLAIN_STD, _PLAIN_STD
        positions = "learned" if isinstance(config, ConvolutionalConfig) else "none"
        if isinstance(config, TransformerConfig):
            self.scale, self.initial_std, self.position_std = math.sqrt(config.d_model), config.d_model**-0.5, 0.02
            positions = config.positions
        self.is_normed = is_tied
        if is_tied:
            assert isinstance(config, Writing)
            self.scale *= self.initial_std
            self.initial_std = _TIED_STD / config.head_scale
        self.tokens = None if vocabulary_size is None else nn.Embedding(vocabulary_size, config.d_model)
        self.rows = None if features is None else nn.Linear(features, config.d_model)
        self.positions = input_positions(positions, max_length, config.d_model)
        self.dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout

    def forward(self, x: Tensor, start: int | Tensor = 0, also: Tensor | None = None) -> Tensor:
        """Return the input of the first layer.

        Args:
            x: (batch, time) token numbers, or (batch, time, features).
            start: the position of the first token; for packed sequences, the position of each token, (time,).
            also: (batch, time, d_model), more embeddings of the same tokens, which are added; None = nothing to add.

        Returns:
            (batch, time, d_model).
        """
        if self.tokens is not None:
            embedded = functional.embedding(x, self.tokens.weight)
            embedded = embedded if also is None else embedded + also
            if self.is_normed:
                embedded = functional.rms_norm(embedded, embedded.shape[-1:], eps=_SMALLEST)
            embedded = embedded * self.scale
        else:
            assert self.rows is not None
            embedded = self.rows(x)
        return functional.dropout(self.positions(embedded, start), self.dropout, self.training)


class TokenHead(Head):
    """The layer from a token's representation to the logits of the vocabulary.

    A tied head uses the weights of the embedding.

    Logits are multiplied by `head_scale`, and the initial weights are divided by `head_scale`. So the initial logits
    stay the same, but with a scale above 1 the head learns faster than the other layers.

    Source: tied: Press, Wolf 2017, "Using the output embedding to improve language models"; scale: Yang et al. 2021,
    "Tensor programs V", where the scale is one of the multipliers to be tuned.
    """

    def __init__(self, config: Writing, width: int, vocabulary_size: int, tied_to: InputEmbedding | None) -> None:
        super().__init__()
        self.scale = config.head_scale
        self.own = nn.Linear(width, vocabulary_size, bias=False) if tied_to is None else None
        # A list hides the embedding from torch, which would otherwise register its weights a second time.
        self.tied = [] if tied_to is None else [tied_to]

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits: (batch, time, width) -> (batch, time, vocabulary)."""
        x = x * self.scale
        return functional.linear(x, self.weights())

    def weights(self) -> Tensor:
        """Return the weights, (vocabulary, width)."""
        layer = self.tied[0].tokens if self.own is None else self.own
        assert layer is not None
        return layer.weight

    @property
    def is_tied(self) -> bool:
        """Whether the head uses the weights of the embedding."""
        return self.own is None
