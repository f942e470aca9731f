"""Transformers: the layers are torch's, and positions are those of their papers."""

import math

import pytest
import torch
from torch import nn

from model.attention_maps import store_weights
from model.config.whole import parse
from model.errors import SequenceTooLongError
from model.networks.bodies import Source
from model.networks.transformer import positions
from model.networks.transformer.attention import MultiHeadAttention
from model.networks.transformer.stack import Stack
from tests.model.conftest import of, small


def stack(data, **settings):
    """Return a stack of three layers, for a source where the data have pairs, whose every parameter is drawn."""
    torch.manual_seed(0)
    has_source = data == "generated"
    config = parse(small(data, **of("model", {"dropout": 0.0, "num_layers": 3} | settings))).model
    layers = Stack(config, 3, causal=has_source, has_source=has_source)
    for parameter in layers.parameters():
        nn.init.normal_(parameter, std=0.3)
    return layers


def copy(ours, theirs):
    def copy_attention(own, other):
        other.in_proj_weight.copy_(own.projection.weight)
        other.in_proj_bias.copy_(own.projection.bias)
        other.out_proj.load_state_dict(own.output.state_dict())

    with torch.no_grad():
        for own, other in zip(ours.layers, theirs.layers, strict=True):
            copy_attention(own.attention, other.self_attn)
            norms = [own.attention_norm, own.feed_forward_norm]
            if hasattr(other, "multihead_attn"):
                copy_attention(own.source_attention, other.multihead_attn)
                norms.insert(1, own.source_norm)
            for number, norm in enumerate(norms, start=1):
                getattr(other, f"norm{number}").load_state_dict(norm.state_dict())
            other.linear1.load_state_dict(own.feed_forward.inner.state_dict())
            other.linear2.load_state_dict(own.feed_forward.outer.state_dict())
    if theirs.norm is not None:
        theirs.norm.load_state_dict(ours.final_norm.state_dict())


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("nonlinearity", ["relu", "gelu"])
def test_encoder_and_decoder_equal_torchs_with_the_same_weights(is_first, nonlinearity):
    settings = {"norm_order": "first" if is_first else "last", "nonlinearity": nonlinearity}
    given = (16, 2, 32, 0.0, nonlinearity)
    ours = stack("digits", **settings)
    layer = nn.TransformerEncoderLayer(*given, batch_first=True, norm_first=is_first)
    theirs = nn.TransformerEncoder(layer, 3, nn.LayerNorm(16) if is_first else None, enable_nested_tensor=False)
    copy(ours, theirs)
    source, mask = torch.randn(4, 7, 16), torch.arange(7) < torch.tensor([[7], [3], [5], [1]])
    expected = theirs(source, src_key_padding_mask=~mask)
    torch.testing.assert_close(ours(source, mask)[mask], expected[mask], rtol=1e-4, atol=1e-5)
    ours, x = stack("generated", **settings), torch.randn(4, 5, 16)
    layer = nn.TransformerDecoderLayer(*given, batch_first=True, norm_first=is_first)
    theirs = nn.TransformerDecoder(layer, 3, nn.LayerNorm(16) if is_first else None)
    copy(ours, theirs)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    expected = theirs(x, source, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=~mask)
    torch.testing.assert_close(ours(x, source=Source(source, mask)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("kind", ["none", "causal", "boolean", "float", "cross"])
def test_the_weights_of_a_map_times_the_values_are_what_the_attention_gives(kind, rotary):
    """The weights are computed by the formula, and the attention by a fused kernel."""
    torch.manual_seed(0)
    module, x, memory = MultiHeadAttention(12, 3, 4, 5, 0.0, True).eval(), torch.randn(2, 6, 12), torch.randn(2, 7, 12)
    rotation = positions.Rotation.of(6, 4, x.device) if rotary else None
    masks = {
        "boolean": torch.tensor([[True] * 6, [True] * 4 + [False] * 2])[:, None, None, :],
        "float": torch.randn(1, 3, 6, 6).masked_fill(torch.ones(6, 6).triu(1) > 0, -torch.inf),
        "cross": torch.tensor([[True] * 7, [True] * 5 + [False] * 2])[:, None, None, :],
    }
    with store_weights([module]):
        if kind == "cross":
            output = module.cross(x, module.project_source(memory), masks[kind])
        else:
            output = module(x, masks.get(kind), causal=kind == "causal", rotation=rotation)
        (weights,) = module.stored_weights
    assert module.stored_weights is None
    value = module.projection(memory if kind == "cross" else x)[..., -15:].unflatten(-1, (3, 5)).transpose(1, 2)
    torch.testing.assert_close(module.output((weights @ value).transpose(1, 2).flatten(2)), output)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_rotary_scores_depend_on_the_distance_only():
    torch.manual_seed(0)
    query, key = torch.randn(1, 1, 1, 8).expand(1, 1, 6, 8), torch.randn(1, 1, 1, 8).expand(1, 1, 6, 8)
    rotation = positions.Rotation.of(6, 8, torch.device("cpu"))
    scores = (rotation.turn(query) @ rotation.turn(key).transpose(-1, -2))[0, 0]
    for distance in range(-5, 6):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert not torch.allclose(scores[0, 0], scores[0, 1])


def test_alibi_lowers_a_score_by_slope_times_distance_and_slopes_fall_geometrically():
    distances = torch.tensor([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]])
    torch.testing.assert_close(positions.alibi_bias(positions.alibi_slopes(4), 3, 3)[0], -0.25 * distances)
    torch.testing.assert_close(positions.alibi_slopes(8), torch.tensor([2.0**-i for i in range(1, 9)]))
    assert len(positions.alibi_slopes(6)) == len(set(positions.alibi_slopes(6).tolist())) == 6


def test_sinusoidal_positions_are_those_of_the_paper_and_grow_with_the_sequence():
    rows = [[math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)] for p in range(50)]
    torch.testing.assert_close(positions.sinusoidal_table(50, 4), torch.tensor(rows))
    torch.testing.assert_close(positions.sinusoidal_table(9, 5)[:, 4], (torch.arange(9) / 10_000**0.8).sin())
    added = positions.SinusoidalPositions(4, 6)(torch.zeros(1, 30, 6))[0]
    torch.testing.assert_close(added, positions.sinusoidal_table(30, 6))


def test_a_sequence_past_the_learned_positions_is_refused_with_both_lengths():
    with pytest.raises(SequenceTooLongError, match=r"at most 8 tokens.*given 9"):
        positions.LearnedPositions(8, 4)(torch.zeros(1, 9, 4))
