import itertools
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from model.config.whole import parse
from model.data.tokens.vocabulary import END, START
from model.decoding.beam_search import beam_search, greedy, length_penalty
from model.networks.bodies import Source
from model.networks.encoder_decoder import EncoderDecoder
from model.networks.transformer.stack import Stack
from model.networks.transformer.state import TransformerState
from tests.model.conftest import small


def model_config(**overrides):
    keys = {"dropout": 0.0} | overrides
    return parse(small("generated", "encoder_decoder", **{f"model__{key}": value for key, value in keys.items()})).model


def build(size=9, seed=0, **overrides):
    torch.manual_seed(seed)
    return EncoderDecoder(
        model_config(**overrides), source_size=size, target_size=size, max_length=40, shared=False
    ).eval()


def copy_attention(ours, theirs):
    theirs.in_proj_weight.copy_(ours.projection.weight)
    theirs.in_proj_bias.copy_(ours.projection.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())


@pytest.mark.parametrize("norm_order", ["first", "last"])
def test_the_decoder_equals_torchs_with_the_same_weights(norm_order):
    torch.manual_seed(0)
    config, is_first = model_config(norm_order=norm_order, nonlinearity="relu"), norm_order == "first"
    ours = Stack(config, 2, causal=True, has_source=True)
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    layer = nn.TransformerDecoderLayer(16, 2, 32, 0.0, "relu", batch_first=True, norm_first=is_first)
    theirs = nn.TransformerDecoder(layer, 2, nn.LayerNorm(16) if is_first else None)
    with torch.no_grad():
        for mine, other in zip(ours.layers, theirs.layers, strict=True):
            copy_attention(mine.attention, other.self_attn)
            copy_attention(mine.source_attention, other.multihead_attn)
            other.linear1.load_state_dict(mine.feed_forward.inner.state_dict())
            other.linear2.load_state_dict(mine.feed_forward.outer.state_dict())
            for number, norm in enumerate((mine.attention_norm, mine.source_norm, mine.feed_forward_norm), start=1):
                getattr(other, f"norm{number}").load_state_dict(norm.state_dict())
        if is_first:
            theirs.norm.load_state_dict(ours.final_norm.state_dict())
    x, source = torch.randn(3, 5, 16), torch.randn(3, 7, 16)
    source_mask = torch.arange(7) < torch.tensor([[7], [2], [5]])
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    expected = theirs(x, source, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=~source_mask)
    torch.testing.assert_close(ours(x, source=Source(source, source_mask)), expected, rtol=1e-4, atol=1e-5)


def score(network, source, tokens, penalty):
    """The sum of a target's log-probabilities, over its length penalty."""
    target = torch.tensor([[START, *tokens]])
    chosen = network(source, None, target[:, :-1]).log_softmax(-1).gather(-1, target[:, 1:, None])
    return float(chosen.sum().detach()) / length_penalty(len(tokens), penalty)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_enough_beam_finds_the_best_of_all_targets(penalty):
    network = build(size=6, seed=1)
    source = torch.tensor([[4, 5, 4]])
    letters = (1, 4, 5)
    targets = [[*letters_of, END] for length in range(4) for letters_of in itertools.product(letters, repeat=length)]
    best = max(targets, key=lambda tokens: score(network, source, tokens, penalty))
    found = beam_search(network, source, None, 4, 200, penalty)
    assert found.sequences()[0] == best[:-1]
    assert float(found.scores[0]) == pytest.approx(score(network, source, best, penalty), rel=1e-4)


def test_beam_1_equals_greedy_and_a_beam_is_never_worse():
    for seed in range(5):
        network = build(seed=seed)
        source = torch.randint(4, 9, (6, 5))
        attention_mask = torch.arange(5) < torch.tensor([[5], [4], [1], [2], [5], [3]])
        one = greedy(network, source, attention_mask, 12, 0.6)
        assert beam_search(network, source, attention_mask, 12, 1, 0.6).sequences() == one.sequences()
        for size in (2, 4):
            has_ended = (one.tokens == END).any(dim=1)
            scores = beam_search(network, source, attention_mask, 12, size, 0.6).scores
            assert (scores >= one.scores - 1e-5)[has_ended].all()


class Waits(TorchDispatchMode):
    """Counts what makes a program wait for a GPU: numbers that it reads, and shapes that depend on numbers."""

    names = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim", "bincount")

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.partition(".")[0]
        by_mask = name in ("index", "index_put", "index_put_", "_index_put_impl_") and any(
            place is not None and place.dtype == torch.bool for place in args[1]
        )
        repeats = function is torch.ops.aten.repeat_interleave.Tensor
        self.count += name in self.names or by_mask or repeats
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("model", ["encoder_decoder", "recurrent_encoder_decoder", "convolutional_encoder_decoder"])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_step_of_a_search_waits_for_the_device_once_at_most(monkeypatch, model, beam_size):
    torch.manual_seed(2)
    config = parse(small("generated", model)).model
    network = EncoderDecoder(config, source_size=9, target_size=9, max_length=40, shared=False).eval()
    network.head.own.weight.data *= 20  # so that some end sooner than others
    source = torch.randint(4, 9, (6, 5))
    attention_mask = torch.arange(5) < torch.tensor([[5], [4], [1], [2], [5], [3]])
    rows, waits, waits_before, advance = [], Waits(), [], EncoderDecoder.advance

    def counted(*given):
        rows.append(len(given[1]))
        waits_before.append(waits.count)
        return advance(*given)

    monkeypatch.setattr(EncoderDecoder, "advance", counted)
    monkeypatch.setattr(torch.Tensor, "tolist", None)
    with waits:
        beam_search(network, source, attention_mask, 12, beam_size, 0.6)
    assert len(set(rows)) > 1
    assert all(after - before <= 1 for before, after in itertools.pairwise([*waits_before, waits.count]))


class Chain:
    """A network whose next token depends on the last alone; after 6 it ends or runs into a loop of 7."""

    after: ClassVar = {START: {6: 0.9, 4: 0.1}, 6: {7: 0.6, END: 0.4}, 7: {7: 1.0}, 4: {4: 1.0}}

    def begin(self, source, source_mask):
        return TransformerState([], [], None)

    def advance(self, target, state):
        chances = torch.zeros(len(target), 1, 9)
        for row, token in enumerate(target[:, 0].tolist()):
            for following, chance in self.after.get(token, {5: 1.0}).items():
                chances[row, 0, following] = chance
        return chances.log()


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_a_loop_without_end_competes_only_where_nothing_ended(penalty):
    source = torch.tensor([[4]])
    assert beam_search(Chain(), source, None, 40, 4, penalty).sequences() == [[6]]
    cut = beam_search(Chain(), source, None, 1, 4, penalty)
    assert cut.sequences() == [[6]]
    assert END not in cut.tokens


def test_a_shared_vocabulary_has_one_embedding():
    sizes = {"source_size": 9, "target_size": 9, "max_length": 10}
    shared, apart = (EncoderDecoder(model_config(), **sizes, shared=shared) for shared in (True, False))
    count = [sum(parameter.numel() for parameter in network.parameters()) for network in (shared, apart)]
    assert count[1] - count[0] == 9 * 16
