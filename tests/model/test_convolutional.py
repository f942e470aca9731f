"""Convolutional networks: the equations of Gehring et al. 2017, as plain loops, and what holds for all."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import nn
from torch.nn import functional

from model.config.whole import parse
from model.data.tokens.vocabulary import PADDING, START
from model.decoding.beam_search import beam_search
from model.networks.convolutional.block import Block, Map
from model.networks.encoder_decoder import EncoderDecoder
from tests.model.conftest import compose, small

VOCABULARY, WIDTH, FILTERS = 9, 6, 8
SETTINGS = [{"weight_norm": False}, {"filter_width": 5}, {"num_decoder_layers": 1, "filter_width": 1}]
EVERY = pytest.mark.parametrize("settings", SETTINGS)


def pair(**settings):
    """A network from sequence to sequence in double precision, so that equal means equal."""
    values = {"d_model": WIDTH, "filters": FILTERS, "dropout": 0.0, "num_layers": 2, "head_scale": 1.0} | settings
    named = {f"model__{key}": value for key, value in values.items()}
    config = parse(compose("generated", "convolutional_encoder_decoder", **named))
    torch.manual_seed(0)
    sizes = {"source_size": VOCABULARY, "target_size": VOCABULARY, "max_length": 12}
    network = EncoderDecoder(config.model, **sizes, shared=False).double()
    for name, parameter in network.named_parameters():
        # Biases begin at 0, where a wrong one would not be seen.
        if "bias" in name:
            nn.init.normal_(parameter, std=0.5)
    return network.eval()


def batch(lengths=(7, 4, 1), time=5):
    torch.manual_seed(1)
    source = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)))
    attention_mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    target = torch.randint(3, VOCABULARY, (len(lengths), time))
    target[:, 0] = START
    return source.masked_fill(~attention_mask, PADDING), attention_mask, target


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
    network = pair(**settings)
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


@EVERY
def test_token_by_token_gives_what_the_whole_target_gives(settings):
    network = pair(**settings)
    source, attention_mask, target = batch()
    state = network.begin(source, attention_mask)
    steps = [network.advance(token, state) for token in target.split([1, 2, 1, 1], dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), network(source, attention_mask, target))


@EVERY
def test_neither_padding_nor_what_else_is_in_the_batch_changes_anything(settings):
    network = pair(**settings)
    source, attention_mask, target = batch()
    together, found = network(source, attention_mask, target), beam_search(network, source, attention_mask, 6, 3, 0.6)
    for place, length in enumerate(attention_mask.sum(1).tolist()):
        alone = source[place : place + 1, :length]
        torch.testing.assert_close(network(alone, None, target[place : place + 1])[0], together[place])
        searched = beam_search(network, alone, None, 6, 3, 0.6)
        assert searched.sequences()[0] == found.sequences()[place]
        torch.testing.assert_close(searched.scores[0], found.scores[place])


def test_later_target_tokens_are_not_seen():
    network = pair(filter_width=5)
    source, attention_mask, target = batch()
    changed = target.clone()
    changed[:, 3:] = 4
    before, after = network(source, attention_mask, target), network(source, attention_mask, changed)
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3], after[:, 3])


def test_the_filters_are_those_of_torch():
    network = pair(filter_width=5)
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
    network = pair(num_decoder_layers=3)
    source, attention_mask, _ = batch()
    read = network.encoder.read(network.source_embedding(source).detach(), attention_mask)
    outputs = read.outputs.detach().requires_grad_()
    embedded = read.more[0].detach().requires_grad_()
    memory = network.decoder.begin(read._replace(outputs=outputs, more=(embedded,))).memory
    (memory.keys.sum() + memory.values.sum()).backward()
    torch.testing.assert_close(outputs.grad, torch.full_like(outputs, (1 + math.sqrt(0.5)) / 6))
    torch.testing.assert_close(embedded.grad, torch.full_like(embedded, math.sqrt(0.5)))


def test_an_even_filter_in_an_encoder_is_refused_by_its_key():
    for model in ("convolutional_encoder_decoder", "convolutional_encoder"):
        data = "generated" if "decoder" in model else "digits"
        with pytest.raises(ValidationError) as caught:
            parse(small(data, model, model__filter_width=4))
        assert "model.filter_width" in caught.value.errors()[0]["ctx"]["keys"]
    parse(small("language_modelling", "convolutional_decoder", model__filter_width=4))
