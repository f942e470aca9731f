import math

import pytest
import torch

from model.networks.transformer.attention import MultiHeadAttention
from model.networks.transformer.positions import Rotation, alibi_bias, alibi_slopes


def reference(attention, x, memory, allowed):
    """softmax(Q K^T / sqrt(d_k)) V, written out head by head."""
    queries, keys, values = attention.widths
    weight, bias = attention.projection.weight, attention.projection.bias
    query = (x @ weight[:queries].T + bias[:queries]).unflatten(-1, (attention.num_heads, -1))
    key = memory @ weight[queries : queries + keys].T + bias[queries : queries + keys]
    value = memory @ weight[-values:].T + bias[-values:]
    key, value = (each.unflatten(-1, (attention.num_heads, -1)) for each in (key, value))
    heads = []
    for head in range(attention.num_heads):
        scores = query[:, :, head] @ key[:, :, head].transpose(1, 2) / math.sqrt(attention.key_width)
        scores = scores.masked_fill(~allowed[:, None, :], -math.inf)
        heads.append(torch.softmax(scores, dim=-1) @ value[:, :, head])
    return torch.cat(heads, dim=-1) @ attention.output.weight.T + attention.output.bias


@pytest.mark.parametrize(("key_width", "value_width"), [(4, 4), (3, 5), (7, 2)])
@pytest.mark.parametrize("is_self", [True, False])
def test_attention_equals_its_formula_in_float64(key_width, value_width, is_self):
    torch.manual_seed(0)
    attention = MultiHeadAttention(12, 3, key_width, value_width, dropout=0.0, bias=True).double()
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    memory = x if is_self else torch.randn(2, 6, 12, dtype=torch.float64)
    allowed = torch.ones(2, memory.shape[1], dtype=torch.bool)
    allowed[1, 3:] = False
    mask = allowed[:, None, None, :]
    result = attention(x, mask) if is_self else attention.cross(x, attention.project_source(memory), mask)
    torch.testing.assert_close(result, reference(attention, x, memory, allowed), rtol=1e-12, atol=1e-12)


def test_rotary_scores_depend_on_the_distance_only():
    torch.manual_seed(0)
    query, key = torch.randn(1, 1, 1, 8).expand(1, 1, 6, 8), torch.randn(1, 1, 1, 8).expand(1, 1, 6, 8)
    rotation = Rotation.of(6, 8, torch.device("cpu"))
    scores = (rotation.turn(query) @ rotation.turn(key).transpose(-1, -2))[0, 0]
    for distance in range(-5, 6):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert not torch.allclose(scores[0, 0], scores[0, 1])


def test_alibi_lowers_a_score_by_slope_times_distance():
    bias = alibi_bias(alibi_slopes(4), 3, 3)
    torch.testing.assert_close(bias[0], -0.25 * torch.tensor([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]]))


def test_alibi_slopes_fall_geometrically_from_2_to_the_minus_8_over_heads():
    torch.testing.assert_close(alibi_slopes(8), torch.tensor([2.0**-i for i in range(1, 9)]))
    assert len(alibi_slopes(6)) == len(set(alibi_slopes(6).tolist())) == 6
