"""Recurrent networks: the equations of their papers, token by token, over torch's cells."""

import pytest
import torch

from tests.model.test_every_pair import batch, pair

WIDTH = 8


def encoded(network):
    """Return the encoder's annotations of the second source, the states after it, and that pair's whole logits."""
    source, attention_mask, target = batch()
    read = network.encoder.read(network.source_embedding(source[1:2, : int(attention_mask[1].sum())]), None)
    words = network.target_embedding.tokens.weight[target[1]]
    return read.outputs[0], [part[:, 0] for part in read.more], words, network(source, attention_mask, target)[1]


def test_attention_before_the_cell_is_that_of_bahdanau_et_al():
    """Section 2 and appendices A.1.2, A.2.2, for one pair: s_0, e_ij, c_i, s_i and the maxout layer t_i."""
    network = pair("recurrent", attention="mlp", attend="before", bridge="mlp", cell="gru")
    decoder, attention = network.decoder, network.decoder.attention
    annotations, (last,), words, expected = encoded(network)
    s, logits = torch.tanh(decoder.begins.weight @ last[-1] + decoder.begins.bias), []
    for y in words:
        query = attention.of_query.weight @ s + attention.of_key.bias
        e = torch.tanh(annotations @ attention.of_key.weight.T + query) @ attention.score.weight[0]
        c = e.softmax(0) @ annotations
        t = decoder.combine.weight @ torch.cat([s, y, c]) + decoder.combine.bias
        s = torch.gru_cell(torch.cat([y, c])[None], s[None], *decoder.cells.cells.all_weights[0])[0]
        logits.append(network.head.own.weight @ t.view(WIDTH, 2).amax(1))
    torch.testing.assert_close(torch.stack(logits), expected)


@pytest.mark.parametrize("is_fed", [False, True])
def test_attention_after_the_cell_is_that_of_luong_et_al(is_fed):
    """Equations 5 and 7 with the general score, and input feeding (section 3.3)."""
    network = pair("recurrent", attention="bilinear", input_feeding=is_fed, bridge="copy", cell="lstm")
    decoder, attention = network.decoder, network.decoder.attention
    annotations, (h, c), words, expected = encoded(network)
    attentional, logits = torch.zeros(WIDTH, dtype=h.dtype), []
    for y in words:
        given = torch.cat([y, attentional]) if is_fed else y
        h, c = torch.lstm_cell(given[None], (h, c), *decoder.cells.cells.all_weights[0])
        weights = (annotations @ attention.of_key.weight.T @ h[0]).softmax(0)
        attentional = torch.tanh(decoder.combine.weight @ torch.cat([weights @ annotations, h[0]]))
        logits.append(network.head.own.weight @ attentional)
    torch.testing.assert_close(torch.stack(logits), expected)


def test_without_attention_the_source_is_one_vector():
    """Sutskever et al. 2014: the decoder begins where the encoder ended, and sees nothing else of the source."""
    network = pair("recurrent", attention="none", bridge="copy", bidirectional=False, reverse_source=True)
    source, _, target = batch((6,))
    read = network.encoder.read(network.source_embedding(source), None)
    backwards, _ = network.encoder.cells(network.source_embedding(source.flip(1)))
    torch.testing.assert_close(read.outputs, backwards.flip(1))
    torch.testing.assert_close(read.more[0][0, 0], backwards[0, -1])
    hidden, _ = network.decoder.cells(network.target_embedding(target), read.more)
    torch.testing.assert_close(network(source, None, target), network.head(hidden))
