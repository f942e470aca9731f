"""The cache of decoding: each layer's keys and values, kept from one token to the next."""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class AttentionCache:
    """Keys (batch, heads, time, key_width) and values (batch, heads, time, value_width) seen so far, or None."""

    key: Tensor | None = None
    value: Tensor | None = None

    @property
    def length(self) -> int:
        """How many positions are kept."""
        return 0 if self.key is None else self.key.shape[2]

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add new positions at the end; return all keys and all values."""
        if self.key is None or self.value is None:
            self.key, self.value = key, value
        else:
            self.key, self.value = torch.cat([self.key, key], dim=2), torch.cat([self.value, value], dim=2)
        return self.key, self.value

    def select(self, rows: Tensor) -> None:
        """Keep these rows (batch,) of the batch, in this order; a row may be listed twice."""
        if self.key is not None and self.value is not None:
            self.key, self.value = self.key[rows], self.value[rows]


@dataclass
class LayerCache:
    """One layer's keys and values of earlier tokens, and of the source, which do not change while decoding."""

    own: AttentionCache = field(default_factory=AttentionCache)
    source: AttentionCache = field(default_factory=AttentionCache)


@dataclass
class StackCache:
    """The caches of all layers."""

    layers: list[LayerCache]

    @classmethod
    def of(cls, num_layers: int) -> "StackCache":
        """Return an empty cache."""
        return cls([LayerCache() for _ in range(num_layers)])

    @property
    def length(self) -> int:
        """How many positions have been decoded."""
        return self.layers[0].own.length

    def select(self, rows: Tensor) -> None:
        """Keep these rows (batch,) of the batch in every layer."""
        for layer in self.layers:
            layer.own.select(rows)
            layer.source.select(rows)
