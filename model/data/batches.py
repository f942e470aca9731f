"""Sequences of different lengths, and batches of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ragged:
    """Sequences stored one after the other, so that one index gathers a batch instead of a loop.

    Attributes:
        flat: (all tokens,) or (all tokens, features).
        starts: (sequences,), where each sequence begins in `flat`.
        lengths: (sequences,), at least 1 each.
    """

    flat: Tensor
    starts: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> "Ragged":
        """Return the sequences from lists of token numbers, none of them empty."""
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        flat = torch.tensor([token for sequence in sequences for token in sequence])
        return cls(flat, lengths.cumsum(0) - lengths, lengths)

    @classmethod
    def of_rows(cls, rows: Tensor) -> "Ragged":
        """Return the sequences from (sequences, time, features): all of one length."""
        count, time, _ = rows.shape
        return cls(rows.flatten(0, 1), torch.arange(count) * time, torch.full((count,), time))

    def __len__(self) -> int:
        return len(self.lengths)

    def gather(self, indices: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the chosen sequences, padded at their end with 0 to the longest of them.

        Returns:
            (batch, time) or (batch, time, features); and (batch, time) boolean, True = a token, False = padding,
            or None where nothing is padded.
        """
        lengths = self.lengths[indices]
        longest = int(lengths.max())
        offsets = torch.arange(longest)
        places = self.starts[indices].unsqueeze(1) + offsets
        if int(lengths.min()) == longest:
            return self.flat[places], None
        real = offsets < lengths.unsqueeze(1)
        tokens = self.flat[places.clamp(max=len(self.flat) - 1)]
        return tokens.masked_fill(~real.reshape(real.shape + (1,) * (tokens.ndim - 2)), 0), real


def shuffled_batches(count: int, batch_size: int, generator: torch.Generator) -> list[Tensor]:
    """Return every position 0 .. count - 1 once, in a fresh random order; the last batch may be smaller."""
    return list(torch.split(torch.randperm(count, generator=generator), batch_size))


def batches_by_length(
    lengths: Tensor, batch_size: int, batch_tokens: int | None = None, generator: torch.Generator | None = None
) -> list[Tensor]:
    """Return batches that hold every position once, with sequences of similar length together for the least padding.

    Args:
        lengths: (examples,), tokens in each.
        batch_size: maximum of examples in a batch.
        batch_tokens: maximum of tokens in a batch, padding counted (but at least one example); None = no limit.
        generator: with it, examples of equal length and the batches are in random order; without, shortest first.

    Returns:
        The same number of batches for any generator: their sizes depend on the sorted lengths alone.
    """
    if generator is None:
        order = torch.argsort(lengths, stable=True)
    else:
        order = torch.randperm(len(lengths), generator=generator)
        order = order[torch.argsort(lengths[order], stable=True)]
    if batch_tokens is None:
        batches = list(torch.split(order, batch_size))
    else:
        batches = list(torch.split(order, _sizes(lengths[order].tolist(), batch_size, batch_tokens)))
    if generator is None:
        return batches
    return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


def _sizes(rising_lengths: list[int], batch_size: int, batch_tokens: int) -> list[int]:
    sizes: list[int] = []
    size = 0
    for length in rising_lengths:  # the longest so far, so the width of the batch
        if size and (size == batch_size or (size + 1) * length > batch_tokens):
            sizes.append(size)
            size = 0
        size += 1
    return [*sizes, size]
