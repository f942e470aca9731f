"""Convolutional networks: the equations of Gehring et al. 2017, as plain loops, and what holds for all."""

import math

import pytest
import torch
from torch.nn import functional

from model.config.whole import parse
from model.networks.convolutional.block import Block, Map
from model.networks.encoder_decoder import EncoderDecoder
from tests.model.conftest import compose, small
from tests.model.test_every_pair import batch, pair

FILTERS = 8
SETTINGS = [{"weight_norm": False}, {"filter_width": 5}, {"num_decoder_layers": 1, "filter_width": 1}]
EVERY = pytest.mark.parametrize("settings", SETTINGS)


def convolved(block, x, first):
    """Equation of section 3.2 for each token; `first`: the place of the first token that a filter sees."""
    weight, outputs = block.map.weight.unflatten(1, (FILTERS, -1)), []
    for place in range(len(x)):
        y = block.map.bias.clone()
        for offset in range(weight.shape[2]):
            seen = place + first + offset
            if 0 <= seen < len(x):
                y = y + weight[:, :, offset] @ x[seen]
        outputs.append(y[:FILTERS] * torch.sigmoid(y[FILTERS:]))
    return torch.stack(outputs)


@EVERY
def test_the_whole_network_is_that_of_gehring_et_al(settings):
    """Sections 3.1 to 3.4, for one pair: e, z of the encoder, and h, d, a, c of each block of the decoder."""
    network = pair("convolutional_encoder_decoder", **settings)
    source, attention_mask, target = batch()
    length, reach = int(attention_mask[1].sum()), settings.get("filter_width", 3)
    half = math.sqrt(0.5)

    def embedded(embedding, tokens):
        places = torch.arange(len(tokens))
        return embedding.tokens.weight[tokens] + embedding.positions.embedding.weight[places]

    e = embedded(network.source_embedding, source[1, :length])
    x = network.encoder.enter(e)
    for block in network.encoder.blocks:
        x = (x + convolved(block, x, -(reach // 2))) * half
    z = network.encoder.leave(x)

    g = embedded(network.target_embedding, target[1])
    x = network.decoder.enter(g)
    for block, attention in zip(network.decoder.blocks, network.decoder.attention, strict=True):
        h = convolved(block, x, 1 - reach)
        mixed = []
        for place in range(len(h)):
            d = (attention.enter(h[place]) + g[place]) * half
            a = torch.stack([d @ key for key in z]).softmax(dim=0)
            c = sum(weight * (key + word) * half for weight, key, word in zip(a, z, e, strict=True))
            mixed.append((h[place] + attention.leave(c * length * math.sqrt(1 / length))) * half)
        x = (x + torch.stack(mixed)) * half
    logits = network.decoder.leave(x) @ network.head.own.weight.T
    torch.testing.assert_close(logits, network(source, attention_mask, target)[1])


def test_the_filters_are_those_of_torch():
    network = pair("convolutional_encoder_decoder", filter_width=5)
    x = torch.randn(2, 7, FILTERS, dtype=torch.float64)
    block = network.encoder.blocks[0]
    weight = block.map.weight.unflatten(1, (FILTERS, 5))
    expected = functional.glu(functional.conv1d(x.transpose(1, 2), weight, block.map.bias, padding=2), dim=1)
    torch.testing.assert_close(block(x), expected.transpose(1, 2))


def test_weights_begin_as_the_paper_says_also_when_they_are_normed():
    """Section 3.5: gates keep the variance of their inputs, also with dropout before them."""
    values = {"model__d_model": 256, "model__filters": 256, "model__dropout": 0.2}
    for is_normed in (False, True):
        config = parse(compose("generated", "convolutional_encoder_decoder", **values, model__weight_norm=is_normed))
        torch.manual_seed(0)
        network = EncoderDecoder(config.model, source_size=99, target_size=99, max_length=12, shared=False)
        maps = {name: module for name, module in network.named_modules() if isinstance(module, Map)}
        assert len(maps) == 2 + 3 + 2 + 3 + 6
        for name, module in maps.items():
            inputs, is_gate = module.weight.shape[1], ".map" in name
            expected = math.sqrt((4 * 0.8 if is_gate else 0.8 if name.endswith("er.enter") else 1) / inputs)
            assert float(module.weight.detach().std()) == pytest.approx(expected, rel=0.03), name
            assert not module.bias.any()
        for embedding in (network.source_embedding.tokens, network.target_embedding.positions.embedding):
            assert float(embedding.weight.detach().std()) == pytest.approx(0.1, rel=0.1)


def test_a_normed_map_has_one_length_for_each_output():
    torch.manual_seed(0)
    config = parse(small("generated", "convolutional_encoder_decoder")).model
    module = Block(config, causal=True).map
    length, direction = module.parametrizations.weight.original0, module.parametrizations.weight.original1
    torch.testing.assert_close(module.weight, length * direction / direction.norm(dim=1, keepdim=True))


def test_the_encoders_gradients_are_shared_by_the_attentions():
    """Section 3.4: divided by twice the number of attentions, but those of the embeddings are not."""
    network = pair("convolutional_encoder_decoder", num_decoder_layers=3)
    source, attention_mask, _ = batch()
    read = network.encoder.read(network.source_embedding(source).detach(), attention_mask)
    outputs = read.outputs.detach().requires_grad_()
    embedded = read.more[0].detach().requires_grad_()
    memory = network.decoder.begin(read._replace(outputs=outputs, more=(embedded,))).memory
    (memory.keys.sum() + memory.values.sum()).backward()
    torch.testing.assert_close(outputs.grad, torch.full_like(outputs, (1 + math.sqrt(0.5)) / 6))
    torch.testing.assert_close(embedded.grad, torch.full_like(embedded, math.sqrt(0.5)))
