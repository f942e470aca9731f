import math

import pytest
import torch

from model.errors import SequenceTooLongError
from model.networks.transformer.positions import LearnedPositions, SinusoidalPositions, sinusoidal_table


def test_sinusoidal_table_for_width_4_is_sin_p_cos_p_sin_p_100_cos_p_100():
    rows = [[math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)] for p in range(50)]
    torch.testing.assert_close(sinusoidal_table(50, 4), torch.tensor(rows))


def test_sinusoidal_positions_grow_with_the_sequence():
    positions = SinusoidalPositions(4, 6)
    torch.testing.assert_close(positions(torch.zeros(1, 30, 6))[0], sinusoidal_table(30, 6))


def test_odd_widths_have_a_sinusoidal_table_too():
    torch.testing.assert_close(sinusoidal_table(9, 5)[:, 4], (torch.arange(9) / 10_000**0.8).sin())


def test_a_sequence_past_the_learned_positions_is_refused_naming_both_lengths():
    with pytest.raises(SequenceTooLongError, match=r"at most 8 tokens.*given 9"):
        LearnedPositions(8, 4)(torch.zeros(1, 9, 4))
