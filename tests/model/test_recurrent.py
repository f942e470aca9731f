"""Recurrent networks: the equations of their papers, written again as plain loops, and what holds for every wiring."""

import pytest
import torch
from torch import nn

from model.config.whole import parse
from model.networks.language_model import LanguageModel
from model.networks.recurrent.cells import Cells
from model.networks.recurrent.encoder import reverse_sequences
from tests.model.conftest import small
from tests.model.test_every_pair import batch, pair

WIDTH = 8


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
    network = pair("recurrent_encoder_decoder", attention="mlp", attend="before", bridge="mlp", cell="gru")
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
    network = pair("recurrent_encoder_decoder", attention="bilinear", input_feeding=is_fed, bridge="copy", cell="lstm")
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
    network = pair(
        "recurrent_encoder_decoder", attention="none", bridge="copy", bidirectional=False, reverse_source=True
    )
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
