"""The layer of a Transformer, and the stack of layers, for encoders and decoders.

Shapes: batch = number of sequences, time = number of tokens in a sequence, d_model = width of a token's vector.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from model.config.networks.transformer import TransformerConfig
from model.data.packing import Packing
from model.networks.bodies import Source, State, StoresWeights
from model.networks.transformer.attention import MultiHeadAttention, in_aligned_rows, precision_of
from model.networks.transformer.feed_forward import FeedForward, build_norm
from model.networks.transformer.positions import Rotation, alibi_bias, alibi_slopes
from model.networks.transformer.state import KeyValueCache, Memory, TransformerState


class Layer(nn.Module):
    """Self-attention, cross-attention (if there is a source), and feed-forward.

    Each sub-layer has a residual connection. With `norm_order=first`, the norm is applied to the sub-layer's input;
    with `last`, to the residual sum.

    Source: Vaswani et al. 2017, section 3.1 (last); Xiong et al. 2020, "On layer normalization in the Transformer
    architecture" (first).
    """

    def __init__(self, config: TransformerConfig, *, has_source: bool) -> None:
        super().__init__()
        self.norm_first, self.dropout = config.norm_order == "first", config.dropout
        # The factor of a sub-layer's output in the residual sum; see `parametrize`.
        self.branch_scale = 1.0
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
        memory: Memory | None,
        source_mask: Tensor | None,
        cache: KeyValueCache | None,
        packing: Packing | None,
    ) -> Tensor:
        """Return the output, in the shape of `x`; for the arguments, see `MultiHeadAttention`."""
        inner = self.attention_norm(x) if self.norm_first else x
        inner = self.attention(inner, mask, causal=causal, rotation=rotation, cache=cache, packing=packing)
        x = self._add(x, inner, self.attention_norm)
        if self.source_attention is not None and self.source_norm is not None:
            assert memory is not None
            inner = self.source_norm(x) if self.norm_first else x
            inner = self.source_attention.cross(inner, memory, source_mask, packing)
            x = self._add(x, inner, self.source_norm)
        inner = self.feed_forward_norm(x) if self.norm_first else x
        return self._add(x, self.feed_forward(inner), self.feed_forward_norm)

    def project_source(self, source: Source | None) -> Memory | None:
        """Return the keys and values of the source; None if the layer has no cross-attention."""
        if self.source_attention is None:
            return None
        assert source is not None
        return self.source_attention.project_source(source.outputs, source.packing)

    def _add(self, x: Tensor, inner: Tensor, norm: nn.Module) -> Tensor:
        x = torch.add(x, functional.dropout(inner, self.dropout, self.training), alpha=self.branch_scale)
        return x if self.norm_first else norm(x)


class Stack(nn.Module):
    """A sequence of layers; with `norm_order=first`, a norm follows the last layer."""

    slopes: Tensor | None

    def __init__(
        self, config: TransformerConfig, num_layers: int, *, causal: bool = False, has_source: bool = False
    ) -> None:
        """Build an encoder, or a decoder if `causal`; `has_source` adds cross-attention for an encoder-decoder."""
        super().__init__()
        self.causal, self.width = causal, config.d_model
        # Whether the activations of a layer are recomputed for the gradients, instead of stored: Chen et al. 2016,
        # "Training deep nets with sublinear memory cost".
        self.recomputes = False
        self.layers = nn.ModuleList(Layer(config, has_source=has_source) for _ in range(num_layers))
        is_first = config.norm_order == "first"
        self.final_norm = build_norm(config.norm, config.d_model, config.bias) if is_first else None
        self.rotary_width = config.head_key_width if config.positions == "rotary" else None
        slopes = alibi_slopes(config.num_heads) if config.positions == "alibi" else None
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(
        self,
        x: Tensor,
        attention_mask: Tensor | Packing | None = None,
        source: Source | None = None,
        state: State | None = None,
    ) -> Tensor:
        """Return every token's representation.

        Args:
            x: (batch, time, d_model); includes the position embeddings if the network adds them to its input.
            attention_mask: (batch, time) boolean, True = a token, False = padding; None = no padding. A causal stack
                needs no mask, because no real token attends to the padding at the end. For packed sequences, give
                a `Packing` instead of a mask; `x` and the result are then (1, tokens, d_model).
            source: the output of the encoder, for a stack with cross-attention.
            state: the state of earlier positions, or None. With a state, `x` follows these positions and is appended to
                the state; `source` is then ignored.

        Returns:
            (batch, time, d_model); the values at padding are undefined.
        """
        assert state is None or isinstance(state, TransformerState)
        start = 0 if state is None else state.length
        time, packing = x.shape[1], None
        if isinstance(attention_mask, Packing):
            packing, attention_mask = attention_mask, attention_mask.attention_mask
            time = attention_mask.shape[1]
        mask = self._mask(x, time, None if self.causal else attention_mask, start)
        source_mask = _mask_of(source and source.attention_mask) if state is None else state.source_mask
        rotation = None
        if self.rotary_width is not None:
            rotation = Rotation.of(time, self.rotary_width, x.device, start)
        recomputes = self.recomputes and self.training
        for place, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            memory = layer.project_source(source) if state is None else state.memories[place]
            cache = None if state is None else state.layers[place]
            arguments = (x, mask, self.causal, rotation, memory, source_mask, cache, packing)
            x = checkpoint(layer, *arguments, use_reentrant=False) if recomputes else layer(*arguments)
        return x if self.final_norm is None else self.final_norm(x)

    def scale_branches(self, factor: float) -> None:
        """Set the factor of each sub-layer's output in the residual sum."""
        for layer in self.layers:
            assert isinstance(layer, Layer)
            layer.branch_scale = factor

    def read(self, x: Tensor, attention_mask: Tensor | None) -> Source:
        """Return the encoded sequence for a decoder; for the arguments, see `forward`."""
        return Source(self(x, attention_mask), attention_mask)

    def begin(self, source: Source | None = None) -> TransformerState:
        """Return the state before the first token."""
        memories = [layer.project_source(source) for layer in self.layers if isinstance(layer, Layer)]
        return TransformerState(
            [KeyValueCache() for _ in self.layers], memories, _mask_of(source and source.attention_mask)
        )

    def attentions(self) -> Sequence[StoresWeights]:
        """Return the self-attention modules, layer by layer."""
        return [layer.attention for layer in self.layers if isinstance(layer, Layer)]

    def source_attentions(self) -> Sequence[StoresWeights]:
        """Return the cross-attention modules, layer by layer."""
        return [layer.source_attention for layer in self.layers if isinstance(layer, Layer) and layer.source_attention]

    def _mask(self, x: Tensor, time: int, attention_mask: Tensor | None, start: int) -> Tensor | None:
        """Return the mask or bias of self-attention, broadcastable to (batch, heads, time, keys); None = no mask.

        The fastest kernels support no mask, so the result is None if possible. ALiBi always needs a bias: (batch,
        heads, time, keys) if there is an `attention_mask`, else (1, heads, time, keys). The bias is converted to the
        precision of the attention, and its rows are aligned in memory (see `in_aligned_rows`), once for all layers.
        Otherwise each layer would store a copy of the bias.
        """
        allowed = _mask_of(attention_mask)
        if self.slopes is None:
            return allowed
        bias = alibi_bias(self.slopes, time, start + time).to(precision_of(x)).unsqueeze(0)
        if self.causal:
            allowed = torch.ones(time, start + time, dtype=torch.bool, device=x.device).tril(start)
        bias = bias if allowed is None else torch.where(allowed, bias, -torch.inf)
        return in_aligned_rows(bias) if x.device.type == "cuda" else bias


def _mask_of(attention_mask: Tensor | None) -> Tensor | None:
    return None if attention_mask is None else attention_mask[:, None, None, :]


def _attention(config: TransformerConfig) -> MultiHeadAttention:
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        config.head_key_width,
        config.head_value_width,
        dropout,
        config.bias,
        config.num_key_heads,
        config.qk_norm,
    )
