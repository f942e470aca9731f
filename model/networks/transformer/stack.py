"""The Transformer's layer and the stack of layers, for encoder and decoder.

Shapes: batch = sequences, time = tokens of one sequence, d_model = numbers per token.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.config.network import ModelConfig
from model.networks.transformer.attention import MultiHeadAttention
from model.networks.transformer.cache import LayerCache, StackCache
from model.networks.transformer.feed_forward import FeedForward, build_norm
from model.networks.transformer.positions import Rotation, alibi_bias, alibi_slopes


class Layer(nn.Module):
    """Self-attention, cross-attention where there is a source, and feed-forward.

    Each has a residual connection and a norm, before the sub-layer (first) or after the sum (last).

    Source: Vaswani et al. 2017, section 3.1 (last); Xiong et al. 2020, "On layer normalization in the Transformer
    architecture" (first).
    """

    def __init__(self, config: ModelConfig, *, has_source: bool) -> None:
        super().__init__()
        self.norm_first, self.dropout = config.norm_order == "first", config.dropout
        self.attention = _attention(config)
        self.attention_norm = build_norm(config.norm, config.d_model, config.bias)
        self.source_attention = _attention(config) if has_source else None
        self.source_norm = build_norm(config.norm, config.d_model, config.bias) if has_source else None
        self.feed_forward = FeedForward(
            config.d_model, config.feed_forward_width, config.nonlinearity, config.dropout, config.bias
        )
        self.feed_forward_norm = build_norm(config.norm, config.d_model, config.bias)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        causal: bool,
        rotation: Rotation | None,
        source: Tensor | None,
        source_mask: Tensor | None,
        cache: LayerCache | None,
    ) -> Tensor:
        """Return the output, (batch, time, d_model) like `x`; the other arguments are as in MultiHeadAttention."""
        own_cache = None if cache is None else cache.own
        source_cache = None if cache is None else cache.source

        inner = self.attention_norm(x) if self.norm_first else x
        inner = self.attention(inner, mask, causal=causal, rotation=rotation, cache=own_cache)
        x = self._add(x, inner, self.attention_norm)
        if self.source_attention is not None and self.source_norm is not None:
            assert source is not None
            inner = self.source_norm(x) if self.norm_first else x
            inner = self.source_attention.cross(inner, source, source_mask, source_cache)
            x = self._add(x, inner, self.source_norm)
        inner = self.feed_forward_norm(x) if self.norm_first else x
        return self._add(x, self.feed_forward(inner), self.feed_forward_norm)

    def _add(self, x: Tensor, inner: Tensor, norm: nn.Module) -> Tensor:
        x = x + functional.dropout(inner, self.dropout, self.training)
        return x if self.norm_first else norm(x)


class Stack(nn.Module):
    """Layers in sequence; with norms first, one more norm at the end."""

    slopes: Tensor | None

    def __init__(self, config: ModelConfig, num_layers: int, *, causal: bool = False, has_source: bool = False) -> None:
        """Build an encoder; with `causal` a decoder; with `has_source` the decoder of an encoder-decoder."""
        super().__init__()
        self.causal = causal
        self.layers = nn.ModuleList(Layer(config, has_source=has_source) for _ in range(num_layers))
        is_first = config.norm_order == "first"
        self.final_norm = build_norm(config.norm, config.d_model, config.bias) if is_first else None
        self.rotary_width = config.head_key_width if config.positions == "rotary" else None
        slopes = alibi_slopes(config.num_heads) if config.positions == "alibi" else None
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(
        self,
        x: Tensor,
        real: Tensor | None = None,
        source: Tensor | None = None,
        source_real: Tensor | None = None,
        cache: StackCache | None = None,
    ) -> Tensor:
        """Return every token's representation.

        Args:
            x: (batch, time, d_model), with positions already added where they are part of the input.
            real: (batch, time) boolean, True = a token, False = padding; None = no padding. A causal stack
                needs none: padding is at the end, where no real token can see it.
            source: (batch, source time, d_model), the encoder's output, for a stack with a source.
            source_real: (batch, source time), True = a token, False = padding; None = no padding.
            cache: with it, `x` follows the positions in the cache, and is added to it.

        Returns:
            (batch, time, d_model); meaningless numbers at padding.
        """
        start = 0 if cache is None else cache.length
        mask = self._mask(x, None if self.causal else real, start)
        source_mask = None if source_real is None else source_real[:, None, None, :]
        rotation = None
        if self.rotary_width is not None:
            rotation = Rotation.of(x.shape[1], self.rotary_width, x.device, start)
        for place, layer in enumerate(self.layers):
            layer_cache = None if cache is None else cache.layers[place]
            x = layer(x, mask, self.causal, rotation, source, source_mask, layer_cache)
        return x if self.final_norm is None else self.final_norm(x)

    def _mask(self, x: Tensor, real: Tensor | None, start: int) -> Tensor | None:
        """Return what self-attention may see, broadcastable to (batch, heads, time, keys); None = all, or causal."""
        allowed = None if real is None else real[:, None, None, :]
        if self.slopes is None:
            return allowed
        time = x.shape[1]
        bias = alibi_bias(self.slopes, time, start + time).to(x.dtype).unsqueeze(0)
        if self.causal:
            allowed = torch.ones(time, start + time, dtype=torch.bool, device=x.device).tril(start)
        return bias if allowed is None else torch.where(allowed, bias, -torch.inf)


def _attention(config: ModelConfig) -> MultiHeadAttention:
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    return MultiHeadAttention(
        config.d_model, config.num_heads, config.head_key_width, config.head_value_width, dropout, config.bias
    )
