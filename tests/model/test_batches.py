"""Batches by length, and how sequences are padded."""

import pytest
import torch

from model.data.batches import Ragged, batches_by_length, shuffled_batches


@pytest.mark.parametrize("batch_tokens", [None, 30])
def test_batches_by_length_hold_every_example_once_within_their_limits(batch_tokens):
    lengths = torch.randint(1, 40, (101,), generator=torch.Generator().manual_seed(0))
    sizes = set()
    for seed in range(3):
        batches = batches_by_length(lengths, 8, batch_tokens, torch.Generator().manual_seed(seed))
        assert sorted(torch.cat(batches).tolist()) == list(range(101))
        assert all(len(batch) <= 8 for batch in batches)
        if batch_tokens:
            assert all(len(batch) == 1 or len(batch) * max(lengths[batch]) <= 30 for batch in batches)
        sizes.add(tuple(sorted(map(len, batches))))
    assert len(sizes) == 1


def test_batches_by_length_pad_less_than_shuffled_ones():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 40, (500,), generator=generator)

    def padded(batches):
        return sum(len(batch) * int(lengths[batch].max()) for batch in batches)

    assert padded(batches_by_length(lengths, 10, None, generator)) < 0.7 * padded(shuffled_batches(500, 10, generator))


def test_batches_by_length_mix_lengths():
    """Sorted as a whole, 200 batches of 39 lengths would hold one length each."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 40, (2000,), generator=generator)
    batches = batches_by_length(lengths, 10, None, generator)
    spread = [int(lengths[batch].max() - lengths[batch].min()) for batch in batches]
    assert 2 < sum(spread) / len(spread) < 10


def test_batches_by_length_are_drawn_anew_in_every_epoch():
    lengths = torch.randint(1, 9, (200,), generator=torch.Generator().manual_seed(0))
    epochs = [batches_by_length(lengths, 8, None, torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    one, other = ({frozenset(batch.tolist()) for batch in batches} for batches in epochs)
    assert len(one & other) < 5


def test_gathering_gives_each_sequence_padded_at_its_end():
    sequences = [[5, 6, 7], [8], [9, 10]]
    tokens, attention_mask = Ragged.of(sequences).gather(torch.tensor([2, 0, 1]))
    assert tokens.tolist() == [[9, 10, 0], [5, 6, 7], [8, 0, 0]]
    assert attention_mask.tolist() == [[True, True, False], [True] * 3, [True, False, False]]
    assert Ragged.of(sequences).gather(torch.tensor([1, 1]))[1] is None
