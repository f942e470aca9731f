"""The state of decoding: what a stack keeps from one token to the next."""

from dataclasses import dataclass

from torch import Tensor

# The keys (sources, heads, source time, key_width) and values of a source, which do not change while decoding.
Memory = tuple[Tensor, Tensor]


@dataclass
class KeyValueCache:
    """One layer's keys (rows, heads, room, key_width) and values of the tokens so far; `length` of the room is used.

    The room doubles when it is full, so that a token is written once, and not copied with every later one.
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
        """Keep these rows, in this order; a row may be listed twice."""
        if self.key is not None and self.value is not None:
            self.key, self.value = self.key[rows], self.value[rows]


def _with_room(kept: Tensor | None, new: Tensor, length: int) -> Tensor:
    if kept is not None and length <= kept.shape[2]:
        return kept
    larger = new.new_empty(*new.shape[:2], 2 * length, new.shape[3])
    if kept is not None:
        larger[:, :, : kept.shape[2]] = kept
    return larger


@dataclass
class TransformerState:
    """What a causal stack has seen.

    Attributes:
        layers: each layer's keys and values of the tokens so far.
        memories: each layer's memory of the source, None where it has none.
        source_mask: which places of the source may be attended to, broadcastable to (sources, heads, time, places).
    """

    layers: list[KeyValueCache]
    memories: list[Memory | None]
    source_mask: Tensor | None

    @property
    def length(self) -> int:
        """How many tokens have been decoded."""
        return self.layers[0].length

    def initial(self) -> "TransformerState":
        """Return the state at the first token, of the same sources."""
        return TransformerState([KeyValueCache() for _ in self.layers], self.memories, self.source_mask)

    def select(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Keep these rows, in this order, and these sources (None = all); a row may be listed twice."""
        for layer in self.layers:
            layer.select(rows)
        if sources is not None:
            self.memories = [memory and (memory[0][sources], memory[1][sources]) for memory in self.memories]
            self.source_mask = None if self.source_mask is None else self.source_mask[sources]
