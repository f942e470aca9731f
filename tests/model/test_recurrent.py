"""Recurrent networks: the equations of their papers, written again as plain loops, and what holds for every wiring."""

import itertools

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from model.config.whole import parse
from model.data.tokens.vocabulary import PADDING, START
from model.decoding.beam_search import beam_search
from model.networks.encoder_decoder import EncoderDecoder
from model.networks.language_model import LanguageModel
from model.networks.recurrent.cells import Cells
from model.networks.recurrent.encoder import reverse_sequences
from tests.model.conftest import compose, small

VOCABULARY, WIDTH = 9, 8


def pair(**settings):
    """A network from sequence to sequence in double precision, so that equal means equal."""
    values = {"d_model": 6, "hidden_width": WIDTH, "dropout": 0.0, "bidirectional": True, "head_scale": 1.0} | settings
    config = parse(compose("generated", "recurrent_encoder_decoder", **{f"model__{k}": v for k, v in values.items()}))
    torch.manual_seed(0)
    network = EncoderDecoder(
        config.model, source_size=VOCABULARY, target_size=VOCABULARY, max_length=12, shared=False
    ).double()
    for name, parameter in network.named_parameters():
        # Biases begin at 0, where a wrong one would not be seen.
        nn.init.normal_(parameter, std=0.5) if "bias" in name else None
    return network.eval()


def batch(lengths=(7, 4, 1), time=5):
    torch.manual_seed(1)
    source = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)))
    attention_mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    target = torch.randint(3, VOCABULARY, (len(lengths), time))
    target[:, 0] = START
    return source.masked_fill(~attention_mask, PADDING), attention_mask, target


WIRINGS = [
    dict(zip(("attention", "attend", "input_feeding", "bridge"), chosen, strict=True))
    for chosen in itertools.product(
        ("none", "mlp", "dot", "bilinear"), ("after", "before"), (False, True), ("zero", "copy", "mlp")
    )
    if not (chosen[0] == "none" and (chosen[1] == "before" or chosen[2] or chosen[3] == "zero"))
    and not (chosen[1] == "before" and chosen[2])
]
EVERY_WIRING = pytest.mark.parametrize("wiring", WIRINGS, ids=lambda w: "-".join(str(value) for value in w.values()))


@pytest.mark.quick("*-copy")
@pytest.mark.slow
@EVERY_WIRING
def test_token_by_token_gives_what_the_whole_target_gives(wiring):
    for cell, layers in (("lstm", 2), ("gru", 1)):
        network = pair(**wiring, cell=cell, num_layers=layers)
        source, attention_mask, target = batch()
        state = network.begin(source, attention_mask)
        steps = [network.advance(token.unsqueeze(1), state) for token in target.unbind(1)]
        torch.testing.assert_close(torch.cat(steps, dim=1), network(source, attention_mask, target))


@pytest.mark.quick("*-mlp")
@pytest.mark.slow
@EVERY_WIRING
def test_what_else_is_in_the_batch_changes_nothing(wiring):
    network = pair(**wiring, bidirectional=False, reverse_source=True)
    source, attention_mask, target = batch()
    together = network(source, attention_mask, target)
    found = beam_search(network, source, attention_mask, 6, 3, 0.6)
    for place, length in enumerate(attention_mask.sum(1).tolist()):
        alone = source[place : place + 1, :length]
        torch.testing.assert_close(network(alone, None, target[place : place + 1])[0], together[place])
        searched = beam_search(network, alone, None, 6, 3, 0.6)
        assert searched.sequences()[0] == found.sequences()[place]
        torch.testing.assert_close(searched.scores[0], found.scores[place])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_padded_sequences_in_two_directions_equal_torchs(cell):
    torch.manual_seed(0)
    ours = Cells(cell, 5, WIDTH, 2, 0.0, bidirectional=True)
    theirs = (nn.LSTM if cell == "lstm" else nn.GRU)(5, WIDTH // 2, 2, bidirectional=True, batch_first=True)
    theirs.load_state_dict(ours.cells.state_dict())
    _, attention_mask, _ = batch()
    x = torch.randn(3, 7, 5)
    outputs, states = ours(x, attention_mask=attention_mask)
    for place, length in enumerate(attention_mask.sum(1).tolist()):
        alone, last = theirs(x[place : place + 1, :length])
        torch.testing.assert_close(outputs[place, :length], alone[0])
        for mine, its in zip(states, last if cell == "lstm" else (last,), strict=True):
            # Theirs are (layers * directions, batch, half).
            torch.testing.assert_close(mine[1, place], torch.cat([its[2, 0], its[3, 0]]))


def gru(cells, x, h):
    """torch.nn.GRU's equations for one token of one layer."""
    gates, memory = cells.weight_ih_l0 @ x + cells.bias_ih_l0, cells.weight_hh_l0 @ h + cells.bias_hh_l0
    r, z = ((gates + memory)[: 2 * WIDTH]).sigmoid().chunk(2)
    n = torch.tanh(gates[2 * WIDTH :] + r * memory[2 * WIDTH :])
    return (1 - z) * n + z * h


def lstm(cells, x, h, c):
    gates = cells.weight_ih_l0 @ x + cells.bias_ih_l0 + cells.weight_hh_l0 @ h + cells.bias_hh_l0
    i, f, g, o = gates.chunk(4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def test_attention_before_the_cell_is_that_of_bahdanau_et_al():
    """Section 2 and appendices A.1.2, A.2.2, for one pair: s_0, e_ij, c_i, s_i and the maxout layer t_i."""
    network = pair(attention="mlp", attend="before", bridge="mlp", cell="gru")
    decoder, attention = network.decoder, network.decoder.attention
    source, attention_mask, target = batch()
    length = int(attention_mask[1].sum())
    annotations = network.encoder(network.source_embedding(source[1:2, :length]), None)[0]
    last = network.encoder.read(network.source_embedding(source[1:2, :length]), None).more[0][-1, 0]
    s = torch.tanh(decoder.begins.weight @ last + decoder.begins.bias)
    logits = []
    for token in target[1]:
        y = network.target_embedding.tokens.weight[token]
        e = torch.stack(
            [
                attention.score.weight[0]
                @ torch.tanh(attention.of_query.weight @ s + attention.of_key.weight @ h + attention.of_key.bias)
                for h in annotations
            ]
        )
        alpha = e.exp() / e.exp().sum()
        c = sum(weight * h for weight, h in zip(alpha, annotations, strict=True))
        t = decoder.combine.weight @ torch.cat([s, y, c]) + decoder.combine.bias
        s = gru(decoder.cells.cells, torch.cat([y, c]), s)
        logits.append(network.head.own.weight @ torch.stack([t[2 * j : 2 * j + 2].max() for j in range(WIDTH)]))
    torch.testing.assert_close(torch.stack(logits), network(source, attention_mask, target)[1])


@pytest.mark.parametrize("is_fed", [False, True])
def test_attention_after_the_cell_is_that_of_luong_et_al(is_fed):
    """Equations 5 and 7 with the general score, and input feeding (section 3.3)."""
    network = pair(attention="bilinear", input_feeding=is_fed, bridge="copy", cell="lstm")
    decoder, attention = network.decoder, network.decoder.attention
    source, attention_mask, target = batch()
    read = network.encoder.read(network.source_embedding(source[1:2, : int(attention_mask[1].sum())]), None)
    h, c = (part[0, 0] for part in read.more)
    attentional, logits = torch.zeros(WIDTH, dtype=h.dtype), []
    for token in target[1]:
        y = network.target_embedding.tokens.weight[token]
        h, c = lstm(decoder.cells.cells, torch.cat([y, attentional]) if is_fed else y, h, c)
        scores = torch.stack([h @ attention.of_key.weight @ state for state in read.outputs[0]])
        weights = scores.exp() / scores.exp().sum()
        context = sum(weight * state for weight, state in zip(weights, read.outputs[0], strict=True))
        attentional = torch.tanh(decoder.combine.weight @ torch.cat([context, h]))
        logits.append(network.head.own.weight @ attentional)
    torch.testing.assert_close(torch.stack(logits), network(source, attention_mask, target)[1])


def test_without_attention_the_source_is_one_vector():
    """Sutskever et al. 2014: the decoder begins where the encoder ended, and sees nothing else of the source."""
    network = pair(attention="none", bridge="copy", bidirectional=False, reverse_source=True)
    source, _, target = batch((6,))
    read = network.encoder.read(network.source_embedding(source), None)
    backwards, _ = network.encoder.cells(network.source_embedding(source.flip(1)))
    torch.testing.assert_close(read.outputs, backwards.flip(1))
    torch.testing.assert_close(read.more[0][0, 0], backwards[0, -1])
    hidden, _ = network.decoder.cells(network.target_embedding(target), read.more)
    torch.testing.assert_close(network(source, None, target), network.head(hidden))


def test_turning_leaves_padding_where_it_is():
    x = torch.arange(1, 9).view(2, 4, 1)
    attention_mask = torch.tensor([[True, True, True, False], [True] * 4])
    assert reverse_sequences(x, attention_mask).squeeze(-1).tolist() == [[3, 2, 1, 4], [8, 7, 6, 5]]
    assert torch.equal(reverse_sequences(reverse_sequences(x, attention_mask), attention_mask), x)


def test_gates_begin_orthogonal_and_the_forget_gate_open():
    config = parse(small("language_modelling", "recurrent_decoder", model__num_layers=2, data__path=None))
    torch.manual_seed(0)
    cells = LanguageModel(config.model, vocabulary_size=9, max_length=4).decoder.cells.cells
    for gate in cells.weight_hh_l1.split(16):
        torch.testing.assert_close(gate @ gate.T, torch.eye(16), rtol=0, atol=1e-5)
    assert [gate.unique().tolist() for gate in cells.bias_ih_l0.split(16)] == [[0.0], [1.0], [0.0], [0.0]]
    assert not cells.bias_hh_l0.any()


MISTAKES = {
    "feeding without attention": ({"attention": "none", "input_feeding": True}, "model.input_feeding"),
    "nothing from the source": ({"attention": "none", "bridge": "zero"}, "model.bridge"),
    "before nothing": ({"attention": "none", "attend": "before"}, "model.attend"),
    "a width without its layer": ({"attention": "dot", "attention_width": 4}, "model.attention_width"),
    "fed twice": ({"attend": "before", "input_feeding": True}, "model.input_feeding"),
    "another number of layers": ({"num_layers": 2, "num_decoder_layers": 1}, "model.num_decoder_layers"),
    "backwards in both directions": ({"reverse_source": True, "bidirectional": True}, "model.reverse_source"),
    "odd halves": ({"hidden_width": 7}, "model.hidden_width"),
    "a head of another width": ({"tied_embeddings": True, "d_model": 4}, "model.tied_embeddings"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_does_not_fit_together_is_refused_by_its_keys(mistake):
    settings, key = MISTAKES[mistake]
    with pytest.raises(ValidationError) as caught:
        parse(small("generated", "recurrent_encoder_decoder", **{f"model__{k}": v for k, v in settings.items()}))
    (error,) = caught.value.errors()
    assert key in error["ctx"]["keys"]


def test_an_unknown_family_is_named_with_the_choices():
    with pytest.raises(ValidationError) as caught:
        parse(small(model__family="transformers"))
    assert [error["loc"] for error in caught.value.errors()] == [("model", "family")]
