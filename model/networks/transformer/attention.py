"""Multi-head attention with free head widths, on torch's fused kernel."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.networks.transformer.cache import AttentionCache
from model.networks.transformer.positions import Rotation


class MultiHeadAttention(nn.Module):
    """softmax(Q K^T / sqrt(key_width)) V for several heads at once, then one linear layer over all heads.

    `key_width` and `value_width` need not be d_model / num_heads: only the last layer,
    (num_heads * value_width) -> d_model, must return to the model's width.

    Source: Vaswani et al. 2017, "Attention is all you need", section 3.2.
    """

    def __init__(
        self, d_model: int, num_heads: int, key_width: int, value_width: int, dropout: float, bias: bool
    ) -> None:
        super().__init__()
        self.num_heads, self.key_width, self.value_width, self.dropout = num_heads, key_width, value_width, dropout
        self.widths = [num_heads * key_width, num_heads * key_width, num_heads * value_width]
        # Queries, keys and values in one layer: self-attention then takes one matrix product instead of three.
        self.projection = nn.Linear(d_model, sum(self.widths), bias=bias)
        self.output = nn.Linear(num_heads * value_width, d_model, bias=bias)
        # None = not kept: the fused kernel never has the weights; see model.attention_maps.
        self.kept_weights: list[Tensor] | None = None

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        *,
        causal: bool = False,
        rotation: Rotation | None = None,
        cache: AttentionCache | None = None,
    ) -> Tensor:
        """Return self-attention: what each position gathers from its own sequence.

        Args:
            x: (batch, time, d_model).
            mask: None, or broadcastable to (batch, heads, time, keys): boolean, True = may be attended to; or float,
                added to the scores.
            causal: whether a position sees only itself and earlier ones; with a mask, the mask decides.
            rotation: rotary positions of `x`, or None.
            cache: earlier positions, which are also seen; `x` is added to it. With it, `x` of more than one position
                must be the beginning of the sequence.

        Returns:
            (batch, time, d_model).
        """
        query, key, value = torch.split(self.projection(x), self.widths, dim=-1)
        query, key, value = self._heads(query), self._heads(key), self._heads(value)
        if rotation is not None:
            query, key = rotation.turn(query), rotation.turn(key)
        if cache is not None:
            key, value = cache.append(key, value)
        return self._gather(query, key, value, mask, causal and x.shape[1] > 1 and mask is None)

    def cross(self, x: Tensor, memory: Tensor, mask: Tensor | None, cache: AttentionCache | None = None) -> Tensor:
        """Return cross-attention: what each position of `x` gathers from another sequence.

        Args:
            x: (batch, time, d_model).
            memory: (batch, keys, d_model); ignored with a filled cache.
            mask: as in self-attention.
            cache: if empty, it is filled with the memory's keys and values; otherwise it replaces the memory.

        Returns:
            (batch, time, d_model).
        """
        weight, bias, queries = self.projection.weight, self.projection.bias, self.widths[0]
        query = self._heads(functional.linear(x, weight[:queries], None if bias is None else bias[:queries]))
        if cache is not None and cache.key is not None and cache.value is not None:
            return self._gather(query, cache.key, cache.value, mask, causal=False)
        both = functional.linear(memory, weight[queries:], None if bias is None else bias[queries:])
        key, value = torch.split(both, self.widths[1:], dim=-1)
        key, value = self._heads(key), self._heads(value)
        if cache is not None:
            cache.append(key, value)
        return self._gather(query, key, value, mask, causal=False)

    def _gather(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """Return the attention's output: (batch, heads, time, width) each -> (batch, time, d_model)."""
        if self.kept_weights is not None:
            self.kept_weights.append(attention_weights(query, key, mask, causal))
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0, is_causal=causal
        )
        return self.output(mixed.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        """Return `x` by head: (batch, time, heads * width) -> (batch, heads, time, width)."""
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)


def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Return softmax(Q K^T / sqrt(key_width)): how much each position attends to each other; every row sums to 1.

    Args:
        query: (batch, heads, time, key_width).
        key: (batch, heads, keys, key_width).
        mask: as in self-attention.
        causal: whether a position sees only itself and earlier ones; requires as many keys as queries.

    Returns:
        (batch, heads, time, keys).

    Source: Vaswani et al. 2017, equation 1.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if causal:
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(dim=-1)
