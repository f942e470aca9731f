"""The Transformer's layers and stacks.

Shapes: batch = sequences, time = tokens of one sequence, d_model = numbers per token.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.attention import MultiHeadAttention
from model.config import ModelConfig
from model.feed_forward import FeedForward, build_norm
from model.positions import Rotation, alibi_bias, alibi_slopes


def build_attention(config: ModelConfig) -> MultiHeadAttention:
    """One attention sub-layer of the configured sizes."""
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    return MultiHeadAttention(
        config.d_model, config.num_heads, config.head_key_width, config.head_value_width, dropout, config.bias
    )


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each with a residual and a norm before (first) or after (last) it.

    Source: Vaswani et al. 2017, section 3.1 (last); Xiong et al. 2020, "On layer normalization in the Transformer
    architecture" (first).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm_first, self.dropout = config.norm_order == "first", config.dropout
        self.attention = build_attention(config)
        self.feed_forward = FeedForward(
            config.d_model, config.feed_forward_width, config.nonlinearity, config.dropout, config.bias
        )
        self.attention_norm = build_norm(config.norm, config.d_model, config.bias)
        self.feed_forward_norm = build_norm(config.norm, config.d_model, config.bias)

    def forward(self, x: Tensor, mask: Tensor | None, rotation: Rotation | None) -> Tensor:
        """(batch, time, d_model) -> the same shape; `mask` and `rotation` as in MultiHeadAttention."""
        if self.norm_first:
            inner = self.attention_norm(x)
            x = x + self._drop(self.attention(inner, inner, mask, rotation))
            return x + self._drop(self.feed_forward(self.feed_forward_norm(x)))
        x = self.attention_norm(x + self._drop(self.attention(x, x, mask, rotation)))
        return self.feed_forward_norm(x + self._drop(self.feed_forward(x)))  # type: ignore[no-any-return]

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)


class Encoder(nn.Module):
    """A stack of encoder layers; with norms first, one more norm at the end."""

    slopes: Tensor | None

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_layers))
        self.final_norm = build_norm(config.norm, config.d_model, config.bias) if config.norm_order == "first" else None
        self.rotary_width = config.head_key_width if config.positions == "rotary" else None
        slopes = alibi_slopes(config.num_heads) if config.positions == "alibi" else None
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Every token's representation.

        Args:
            x: (batch, time, d_model), positions already added where they belong to the input.
            real: (batch, time) boolean, True = a token, False = padding; None = no padding at all.

        Returns:
            (batch, time, d_model); at padding, numbers without meaning.
        """
        mask = self._mask(x, real)
        rotation = None if self.rotary_width is None else Rotation.of(x.shape[1], self.rotary_width, x.device)
        for layer in self.layers:
            x = layer(x, mask, rotation)
        return x if self.final_norm is None else self.final_norm(x)

    def _mask(self, x: Tensor, real: Tensor | None) -> Tensor | None:
        """What every layer's attention may see, broadcastable to (batch, heads, time, time)."""
        allowed = None if real is None else real[:, None, None, :]
        if self.slopes is None:
            return allowed
        bias = alibi_bias(self.slopes, x.shape[1], x.shape[1]).to(x.dtype).unsqueeze(0)
        return bias if allowed is None else torch.where(allowed, bias, -torch.inf)
