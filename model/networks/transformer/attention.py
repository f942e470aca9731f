"""Multi-head attention with configurable head widths, on torch's fused kernel."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.data.packing import Packing
from model.networks.roles import Matrix
from model.networks.transformer.positions import Rotation
from model.networks.transformer.state import KeyValueCache, Memory


class MultiHeadAttention(nn.Module):
    """Computes softmax(Q K^T / sqrt(key_width)) V for several heads at once, then a linear layer over all heads.

    `key_width` and `value_width` may differ from d_model / num_heads, because the last layer maps num_heads *
    value_width numbers to d_model. If there are fewer key and value heads than query heads, neighbouring query heads
    share a key head and a value head. With `qk_norm`, queries and keys are divided by their root mean square, and
    multiplied by learned gains.

    Source: Vaswani et al. 2017, "Attention is all you need", section 3.2; shared heads: Ainslie et al. 2023, "GQA",
    section 2.2; norms: Dehghani et al. 2023, "Scaling vision Transformers to 22 billion parameters", section 2.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        key_width: int,
        value_width: int,
        dropout: float,
        bias: bool,
        num_key_heads: int | None = None,
        qk_norm: bool = False,
    ) -> None:
        super().__init__()
        self.num_heads, self.key_width, self.value_width, self.dropout = num_heads, key_width, value_width, dropout
        keys = num_key_heads or num_heads
        self.is_grouped = keys < num_heads
        self.widths = [num_heads * key_width, keys * key_width, keys * value_width]
        self.query_norm = nn.RMSNorm(key_width, eps=1e-5) if qk_norm else None
        self.key_norm = nn.RMSNorm(key_width, eps=1e-5) if qk_norm else None
        # One layer for queries, keys and values, so that self-attention takes one matrix product instead of three.
        self.projection = nn.Linear(d_model, sum(self.widths), bias=bias)
        self.output = nn.Linear(num_heads * value_width, d_model, bias=bias)
        # The attention weights of each call, for model.attention_maps; None = do not store them. The fused kernel does
        # not return weights, so storing them needs an extra computation.
        self.stored_weights: list[Tensor] | None = None

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        *,
        causal: bool = False,
        rotation: Rotation | None = None,
        cache: KeyValueCache | None = None,
        packing: Packing | None = None,
    ) -> Tensor:
        """Return the self-attention of a sequence, in the shape of `x`.

        Args:
            x: (batch, time, d_model).
            mask: a tensor that is broadcastable to (batch, heads, time, keys); None = no mask. In a boolean mask, True
                = attend. A float mask is added to the scores.
            causal: whether a position attends only to itself and earlier positions; ignored if there is a mask.
            rotation: the rotary positions of `x`; None = no rotary positions.
            cache: the keys and values of earlier positions. `x` also attends to them, and the keys and values of `x`
                are appended. If the cache is not empty, `x` must have one position.
            packing: the positions of the packed tokens in the padded batch; None = not packed. If packed, `x` is
                (1, tokens, d_model), but `mask` still has the axes of the padded batch.
        """
        projected = self.projection(x)
        projected = projected if packing is None else packing.pad(projected)
        query, key, value = torch.split(projected, self.widths, dim=-1)
        query, key, value = self._queries(query), self._keys(key), self._heads(value, self.value_width)
        if rotation is not None:
            query, key = rotation.turn(query), rotation.turn(key)
        if cache is not None:
            key, value = cache.append(key, value)
        return self._gather(query, key, value, mask, causal and query.shape[2] > 1 and mask is None, packing)

    def matrices(self) -> list[Matrix]:
        """Return the matrices that compute queries, keys and values, and the matrix of the output layer."""
        return [
            Matrix(self.projection.weight, tuple(self.widths)),
            Matrix(self.output.weight, (len(self.output.weight),)),
        ]

    def project_source(self, source: Tensor, packing: Packing | None = None) -> Memory:
        """Return the keys and the values of a source, each (batch, heads, time, width).

        The source is (batch, time, d_model), or packed if there is a packing.
        """
        weight, bias, queries = self.projection.weight, self.projection.bias, self.widths[0]
        both = functional.linear(source, weight[queries:], None if bias is None else bias[queries:])
        both = both if packing is None else packing.pad(both)
        key, value = torch.split(both, self.widths[1:], dim=-1)
        return self._keys(key), self._heads(value, self.value_width)

    def cross(self, x: Tensor, memory: Memory, mask: Tensor | None, packing: Packing | None = None) -> Tensor:
        """Return the cross-attention of `x` to another sequence, in the shape of `x`.

        Args:
            x: (batch * n, time, d_model): n target sequences for each source sequence, such as the beams of a search.
                Sequences with the same source are consecutive.
            memory: the keys and values of the other sequence.
            mask: as in `forward`.
            packing: as in `forward`.
        """
        weight, bias, queries = self.projection.weight, self.projection.bias, self.widths[0]
        # Join the rows that share a source into one longer row, so that the source's keys and values are not repeated.
        rows = x if packing is not None else x.reshape(len(memory[0]), -1, x.shape[2])
        rows = functional.linear(rows, weight[:queries], None if bias is None else bias[:queries])
        query = self._queries(rows if packing is None else packing.pad(rows))
        return self._gather(query, *memory, mask, causal=False, packing=packing).view_as(x)

    def _gather(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, packing: Packing | None
    ) -> Tensor:
        """Attend with queries, keys and values of shape (batch, heads, time, width).

        Return a tensor (batch, time, d_model); with `packing`, return a packed tensor.
        """
        if self.stored_weights is not None:
            self.stored_weights.append(attention_weights(query, key, mask, causal))
        is_grouped = self.is_grouped
        if is_grouped and not takes_groups(query, value, mask):
            key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in (key, value))
            is_grouped = False
        mixed = functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal,
            enable_gqa=is_grouped,
        )
        mixed = mixed.transpose(1, 2).flatten(2)
        return self.output(mixed if packing is None else packing.pack(mixed))

    def _queries(self, x: Tensor) -> Tensor:
        heads = self._heads(x, self.key_width)
        return heads if self.query_norm is None else self.query_norm(heads)

    def _keys(self, x: Tensor) -> Tensor:
        heads = self._heads(x, self.key_width)
        return heads if self.key_norm is None else self.key_norm(heads)

    def _heads(self, x: Tensor, width: int) -> Tensor:
        """Return `x` by head: (batch, time, heads * width) -> (batch, heads, time, width)."""
        return x.view(*x.shape[:2], -1, width).transpose(1, 2)


def takes_groups(query: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Return whether torch's best kernel for these inputs supports fewer key heads than query heads.

    If the result is False, the caller repeats the keys and values for the query heads. On the CPU, the result is always
    True. On a GPU, the flash kernel supports fewer key heads, but requires half precision, equal key and value widths,
    and no mask. Other inputs need the memory-efficient kernel, which supports fewer key heads only in some releases of
    torch. The other releases compute inputs with fewer key heads by the plain kernel, which stores all scores (batch,
    heads, time, keys). Repeated keys and values take much less memory than these scores.

    Source: torch, aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, the constraints of each kernel.
    """
    if query.device.type != "cuda":
        return True
    is_half = precision_of(query) in (torch.float16, torch.bfloat16)
    return mask is None and is_half and query.shape[-1] == value.shape[-1]


def precision_of(x: Tensor) -> torch.dtype:
    """Return the dtype in which attention is computed: autocast's dtype if autocast is on, else the dtype of `x`."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def in_aligned_rows(bias: Tensor) -> Tensor:
    """Return a copy of the bias (..., keys) in which every row begins at a multiple of 8 elements in memory.

    Without this alignment, torch's memory-efficient kernel copies the bias in each layer, and stores the copies for the
    gradients.

    Source: torch, aten/src/ATen/native/transformers/attention.cpp, preprocess_mask and pad_bias.
    """
    return functional.pad(bias, (0, -bias.shape[-1] % 8))[..., : bias.shape[-1]]


def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Return the attention weights softmax(Q K^T / sqrt(key_width)); every row sums to 1.

    Args:
        query: (batch, heads, time, key_width).
        key: (batch, key heads, keys, key_width). If there are fewer key heads than query heads, neighbouring query
            heads share a key head.
        mask: as in `MultiHeadAttention.forward`; ignored if `causal`.
        causal: whether a position attends only to itself and earlier positions; requires as many keys as queries.

    Returns:
        A tensor (batch, heads, time, keys).

    Source: Vaswani et al. 2017, equation 1.
    """
    key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if causal:
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(dim=-1)
