import pytest
import torch
from torch import nn

from model.config.whole import parse
from model.networks.classifier import Classifier
from model.networks.transformer.stack import Stack
from tests.model.conftest import small
from tests.model.test_encoder_decoder import copy_attention

POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi")


def model_config(**overrides):
    keys = {f"model__{key}": value for key, value in overrides.items()}
    return parse(small(**({"model__dropout": 0.0} | keys))).model


def copy_layer(ours, theirs):
    with torch.no_grad():
        copy_attention(ours.attention, theirs.self_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    theirs.norm1.load_state_dict(ours.attention_norm.state_dict())
    theirs.norm2.load_state_dict(ours.feed_forward_norm.state_dict())


@pytest.mark.parametrize("norm_order", ["first", "last"])
@pytest.mark.parametrize("nonlinearity", ["relu", "gelu"])
def test_the_encoder_equals_torchs_with_the_same_weights(norm_order, nonlinearity):
    torch.manual_seed(0)
    ours = Stack(model_config(num_layers=3, norm_order=norm_order, nonlinearity=nonlinearity), 3)
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    first = norm_order == "first"
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, nonlinearity, batch_first=True, norm_first=first)
    theirs = nn.TransformerEncoder(layer, 3, nn.LayerNorm(16) if first else None, enable_nested_tensor=False)
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        copy_layer(mine, other)
    if first:
        theirs.norm.load_state_dict(ours.final_norm.state_dict())
    x, attention_mask = torch.randn(4, 7, 16), torch.arange(7) < torch.tensor([[7], [3], [5], [1]])
    expected = theirs(x, src_key_padding_mask=~attention_mask)
    torch.testing.assert_close(ours(x, attention_mask)[attention_mask], expected[attention_mask], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("positions", POSITIONS)
def test_without_positions_the_encoder_is_permutation_equivariant_and_with_them_it_is_not(positions):
    torch.manual_seed(0)
    network = Classifier(model_config(positions=positions), num_classes=3, max_length=20, vocabulary_size=11).eval()
    tokens, order = torch.randint(11, (2, 9)), torch.randperm(9)
    encoded = network.encoder(network.embedding(tokens), None)
    shuffled = network.encoder(network.embedding(tokens[:, order]), None)
    assert torch.allclose(encoded[:, order], shuffled, atol=1e-5) == (positions == "none")
