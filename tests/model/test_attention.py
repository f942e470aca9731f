import math

import pytest
import torch

from model.config.whole import parse
from model.networks.transformer import attention as attention_module
from model.networks.transformer.attention import MultiHeadAttention, in_aligned_rows, takes_groups
from model.networks.transformer.positions import Rotation, alibi_bias, alibi_slopes
from model.networks.transformer.stack import Stack
from tests.model.conftest import small


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


@pytest.mark.parametrize("mask", ["none", "boolean", "bias"])
def test_repeated_keys_and_values_give_what_groups_give(mask, monkeypatch):
    """On a GPU they are repeated for a kernel without groups; here both ways run on the CPU."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(12, 4, 4, 4, dropout=0.0, bias=True, num_key_heads=2).double()
    x = torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    bias = alibi_bias(alibi_slopes(4).double(), 5, 5).unsqueeze(0)
    given = {"none": None, "boolean": torch.arange(5) < torch.tensor([[5], [3]]).view(2, 1, 1, 1), "bias": bias}[mask]
    both = []
    for takes in (True, False):
        monkeypatch.setattr(attention_module, "takes_groups", lambda *_, takes=takes: takes)
        output = attention(x, given)
        both.append((output, *torch.autograd.grad(output.square().sum(), [x, *attention.parameters()])))
    torch.testing.assert_close(*both, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("device", "dtype", "width", "mask", "expected"),
    [
        ("cpu", torch.float32, 4, True, True),
        ("cuda", torch.bfloat16, 4, False, True),
        ("cuda", torch.bfloat16, 4, True, False),
        ("cuda", torch.bfloat16, 8, False, False),
        ("cuda", torch.float32, 4, False, False),
    ],
)
def test_only_the_flash_kernel_of_a_gpu_takes_groups(device, dtype, width, mask, expected):
    class Tokens:
        def __init__(self, width):
            self.device, self.dtype, self.shape = torch.device(device), dtype, (2, 4, 5, width)

    assert takes_groups(Tokens(4), Tokens(width), torch.ones(1) if mask else None) is expected


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


@pytest.mark.parametrize("padded", [False, True])
def test_no_layer_converts_or_copies_the_bias_of_alibi(padded):
    """Each copy would be kept for the gradients, (time, keys) numbers a head."""
    stack = Stack(parse(small(model__positions="alibi", model__num_layers=3)).model, 3)
    x, mask, biases = torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool), []
    mask[1, 3:] = False
    for layer in stack.layers:
        layer.attention.register_forward_pre_hook(lambda _module, args: biases.append(args[1]))
    with torch.autocast("cpu", torch.bfloat16):
        stack(x, mask if padded else None)
    assert {bias.dtype for bias in biases} == {torch.bfloat16}
    assert len({bias.data_ptr() for bias in biases}) == 1
    assert len(biases[0]) == (2 if padded else 1)


@pytest.mark.parametrize("keys", [1, 7, 8, 13])
def test_rows_are_aligned_without_another_number(keys):
    bias = torch.randn(2, 3, 5, keys)
    aligned = in_aligned_rows(bias)
    assert torch.equal(aligned, bias)
    assert all(stride % 8 == 0 for stride in aligned.stride()[:-1])
    assert aligned.stride(-1) == 1


def test_alibi_slopes_fall_geometrically_from_2_to_the_minus_8_over_heads():
    torch.testing.assert_close(alibi_slopes(8), torch.tensor([2.0**-i for i in range(1, 9)]))
    assert len(alibi_slopes(6)) == len(set(alibi_slopes(6).tolist())) == 6
