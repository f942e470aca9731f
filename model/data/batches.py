"""Sequences of different lengths, and batches of them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from model.data.packing import Packing

# The number of batches in a pool of `batches_by_length`. With batches of 64, shuffling multi30k gives 1.61 times as
# many tokens (with padding) as pools of 8 batches, 1.79 times as many as pools of 50, and 1.84 times as many as sorting
# the whole set. But large pools cost accuracy: with pools of 50, the 3,600 words of g2p are only two pools.
_POOL = 8


@dataclass(frozen=True)
class Ragged:
    """Sequences in one tensor; `gather` builds a batch without a loop. Sequences may overlap, as in `TextBlocks`.

    Attributes:
        flat: (all tokens,) or (all tokens, features), on any device.
        starts: (sequences,), the start of each sequence in `flat`; on the CPU.
        lengths: (sequences,), at least 1 each; on the CPU, so that a batch's size is known without waiting for a GPU.
    """

    flat: Tensor
    starts: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> "Ragged":
        """Build sequences from lists of token numbers; no list may be empty."""
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        flat = torch.tensor([token for sequence in sequences for token in sequence])
        return cls(flat, lengths.cumsum(0) - lengths, lengths)

    @classmethod
    def of_rows(cls, rows: Tensor) -> "Ragged":
        """Build sequences of equal length from a tensor (sequences, time, features)."""
        count, time, _ = rows.shape
        return cls(rows.flatten(0, 1), torch.arange(count) * time, torch.full((count,), time))

    def __len__(self) -> int:
        return len(self.lengths)

    def gather(self, indices: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the sequences at `indices`, padded at the end with zeros to equal length, and their mask.

        Returns:
            The sequences, (batch, time) or (batch, time, features); and the mask, (batch, time) boolean, True = a
            token, False = padding. Without padding, the mask is None.
        """
        sizes = self.lengths[indices].tolist()
        device = self.flat.device
        starts, lengths = to_device(torch.stack([self.starts[indices], self.lengths[indices]]), device)
        offsets = torch.arange(max(sizes), device=device)
        places = starts.unsqueeze(1) + offsets
        if min(sizes) == max(sizes):
            return self.flat[places], None
        attention_mask = offsets < lengths.unsqueeze(1)
        tokens = self.flat[places.clamp(max=len(self.flat) - 1)]
        return tokens.masked_fill(
            ~attention_mask.reshape(attention_mask.shape + (1,) * (tokens.ndim - 2)), 0
        ), attention_mask

    def pack(
        self, indices: Tensor, device: torch.device, *, without_first: bool = False, without_last: bool = False
    ) -> tuple[Tensor, Packing | None]:
        """Return the sequences at `indices` end to end, on the device, optionally without their first or last tokens.

        Returns:
            The tokens, (1, tokens) or (1, tokens, features), and their packing. For sequences of equal length, the
            tensor has the shape that `gather` returns, and None replaces the packing.
        """
        starts = self.starts[indices] + int(without_first)
        lengths = self.lengths[indices] - int(without_first) - int(without_last)
        longest = max(lengths.tolist())
        rows = torch.repeat_interleave(lengths)
        positions = torch.arange(len(rows)) - (lengths.cumsum(0) - lengths)[rows]
        tokens = to_device(self.flat[to_device(starts[rows] + positions, self.flat.device)], device)
        if len(rows) == len(indices) * longest:
            return tokens.view(len(indices), longest, *tokens.shape[1:]), None
        places = to_device(rows * longest + positions, device)
        attention_mask = torch.arange(longest, device=device) < to_device(lengths, device).unsqueeze(1)
        return tokens.unsqueeze(0), Packing(places, attention_mask)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on the device, without waiting for the copy to a GPU."""
    if device.type != "cuda" or tensor.device.type == "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def resident(encoded: Any, device: torch.device) -> Any:
    """Return the examples with their tokens on the GPU if all tokens fit, so that no step copies tokens.

    The tokens fit if they take at most a tenth of the GPU's free memory. If they do not fit, or if `device` is the CPU,
    return `encoded` unchanged.
    """
    parts = {each.name: getattr(encoded, each.name) for each in fields(encoded)}
    ragged = {name: part for name, part in parts.items() if isinstance(part, Ragged)}
    if device.type != "cuda":
        return encoded
    if sum(part.flat.nbytes for part in ragged.values()) > torch.cuda.mem_get_info(device)[0] / 10:
        return encoded
    return replace(encoded, **{name: replace(part, flat=part.flat.to(device)) for name, part in ragged.items()})


def shuffled_batches(count: int, batch_size: int, generator: torch.Generator) -> list[Tensor]:
    """Return the positions 0 to count - 1 in a new random order, cut into batches; the last batch may be smaller."""
    return list(torch.split(torch.randperm(count, generator=generator), batch_size))


def batches_by_length(
    lengths: Tensor, batch_size: int, batch_tokens: int | None = None, generator: torch.Generator | None = None
) -> list[Tensor]:
    """Divide the examples into batches with similar lengths, to save padding; return each batch's example indices.

    Without a generator, all examples are sorted by length, the shortest first.

    With a generator, the examples are sorted only within pools of several batches. Fully sorted batches would cost
    accuracy in training, because each batch would hold only a few lengths. The pools are drawn with a fixed seed,
    and not with the generator. So all epochs have the same number of batches, with the same lengths. The generator then
    exchanges examples of equal length between batches, and shuffles the order of the batches.

    Args:
        lengths: (examples,), the number of tokens of each example.
        batch_size: the largest number of examples in a batch.
        batch_tokens: the largest number of tokens in a batch, including padding; None = no limit. A longer example
            forms a batch alone.
        generator: the random generator; None = sorted batches.
    """
    if generator is None:
        order = torch.argsort(lengths, stable=True)
        return _cut(order, lengths, batch_size, batch_tokens)
    places = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(0))
    pools = [
        pool[torch.argsort(lengths[pool], stable=True)]
        for pool in torch.split(places, _pool_size(lengths, batch_size, batch_tokens))
    ]
    cut = [len(batch) for pool in pools for batch in _cut(pool, lengths, batch_size, batch_tokens)]
    of_length = torch.argsort(lengths[torch.cat(pools)], stable=True)
    drawn = torch.randperm(len(lengths), generator=generator)
    order = torch.empty_like(drawn)
    order[of_length] = drawn[torch.argsort(lengths[drawn], stable=True)]
    batches = torch.split(order, cut)
    return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


def _pool_size(lengths: Tensor, batch_size: int, batch_tokens: int | None) -> int:
    """Return the number of examples in a pool, estimated from the mean length."""
    if batch_tokens is not None:
        batch_size = max(1, min(batch_size, round(batch_tokens / float(lengths.double().mean()))))
    return _POOL * batch_size


def _cut(order: Tensor, lengths: Tensor, batch_size: int, batch_tokens: int | None) -> list[Tensor]:
    """Divide examples into batches within the limits of examples and tokens; the examples must be sorted by length."""
    if batch_tokens is None:
        return list(torch.split(order, batch_size))
    return list(torch.split(order, _sizes(lengths[order].tolist(), batch_size, batch_tokens)))


def _sizes(rising_lengths: list[int], batch_size: int, batch_tokens: int) -> list[int]:
    sizes: list[int] = []
    size = 0
    for length in rising_lengths:  # each length is the longest so far, so it is the width of the batch
        if size and (size == batch_size or (size + 1) * length > batch_tokens):
            sizes.append(size)
            size = 0
        size += 1
    return [*sizes, size]
