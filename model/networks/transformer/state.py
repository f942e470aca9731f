"""The state that a Transformer keeps from one decoded token to the next."""

from dataclasses import dataclass

from torch import Tensor

# The keys and the values of the source sequences, which do not change during decoding. The keys have the shape (number
# of sources, heads, source time, key_width).
Memory = tuple[Tensor, Tensor]


@dataclass
class KeyValueCache:
    """The keys (rows, heads, capacity, key_width) and values of a layer for the tokens so far.

    The first `length` positions of the capacity are in use. A full capacity is doubled, so that most tokens need no
    copy.
    """

    key: Tensor | None = None
    value: Tensor | None = None
    length: int = 0

    def append(self, key: Tensor, value: Tensor) -> Memory:
        """Add new positions at the end; return all keys and all values."""
        start, self.length = self.length, self.length + key.shape[2]
        self.key, self.value = _with_room(self.key, key, self.length), _with_room(self.value, value, self.length)
        self.key[:, :, start : self.length], self.value[:, :, start : self.length] = key, value
        return self.key[:, :, : self.length], self.value[:, :, : self.length]

    def select(self, rows: Tensor) -> None:
        """Keep only the given rows, in the given order; a row may occur twice."""
        if self.key is not None and self.value is not None:
            self.key, self.value = self.key[rows], self.value[rows]


def _with_room(old: Tensor | None, new: Tensor, length: int) -> Tensor:
    if old is not None and length <= old.shape[2]:
        return old
    larger = new.new_empty(*new.shape[:2], 2 * length, new.shape[3])
    if old is not None:
        larger[:, :, : old.shape[2]] = old
    return larger


@dataclass
class TransformerState:
    """The state of a causal stack.

    Attributes:
        layers: the keys and values of each layer for the tokens so far.
        memories: the keys and values of the source for each layer; None = no source.
        source_mask: boolean, of shape (number of sources, 1, 1, source time). True = attend to this source token;
            None = attend to all source tokens.
    """

    layers: list[KeyValueCache]
    memories: list[Memory | None]
    source_mask: Tensor | None

    @property
    def length(self) -> int:
        """The number of decoded tokens."""
        return self.layers[0].length

    def initial(self) -> "TransformerState":
        """Return a state with the same sources, but without decoded tokens."""
        return TransformerState([KeyValueCache() for _ in self.layers], self.memories, self.source_mask)

    def select(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Keep only the given rows and sources (None = all sources), in the given order; a row may occur twice."""
        for layer in self.layers:
            layer.select(rows)
        if sources is not None:
            self.memories = [memory and (memory[0][sources], memory[1][sources]) for memory in self.memories]
            self.source_mask = None if self.source_mask is None else self.source_mask[sources]
