"""What every network from sequence to sequence promises, the equations of convolutional ones, and decoding."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from model.config.whole import parse
from model.data.tokens.vocabulary import END, PADDING, SPECIAL, START
from model.decoding.beam_search import beam_search, length_penalty
from model.decoding.sample import draw_token
from model.decoding.sampling import Sampling
from model.networks.encoder_decoder import EncoderDecoder
from tests.model.conftest import of, small

VOCABULARY = 9
LENGTHS = torch.tensor([[5], [4], [1], [2], [5], [3]])
SIZES = {
    "transformer": {},
    "recurrent": {"d_model": 6, "hidden_width": 8, "bidirectional": True, "head_scale": 1.0},
    "convolutional": {"d_model": 6, "filters": 8, "num_layers": 2, "head_scale": 1.0},
}


def pair(family="transformer", size=VOCABULARY, seed=0, **settings):
    """Return a network in double precision, so that equal means equal."""
    config = parse(small("generated", family, **of("model", {"dropout": 0.0} | SIZES[family] | settings)))
    torch.manual_seed(seed)
    network = EncoderDecoder(config.model, source_size=size, target_size=size, max_length=40, shared=False).double()
    for name, parameter in network.named_parameters():
        # Biases begin at 0, where a wrong one would not be seen.
        if "bias" in name and family != "transformer":
            nn.init.normal_(parameter, std=0.5)
    return network.eval()


def batch(lengths=(7, 4, 1), time=5):
    torch.manual_seed(1)
    source = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)))
    attention_mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    target = torch.randint(3, VOCABULARY, (len(lengths), time))
    target[:, 0] = START
    return source.masked_fill(~attention_mask, PADDING), attention_mask, target


# Every attention with every place of it, and each with one of the bridges in turn.
WIRED = ("attention", "attend", "input_feeding", "bridge")
WIRINGS = [("none", "after", False, "copy"), ("none", "after", False, "mlp")] + [
    (attention, *place, ("zero", "copy", "mlp")[(row + column) % 3])
    for row, attention in enumerate(("mlp", "dot", "bilinear"))
    for column, place in enumerate((("after", False), ("after", True), ("before", False)))
]
CONVOLUTIONAL = [{"weight_norm": False}, {"filter_width": 5}, {"num_decoder_layers": 1, "filter_width": 1}]
NETWORKS = [
    *(("transformer", {"positions": name}) for name in ("none", "sinusoidal", "learned", "rotary", "alibi")),
    *(("recurrent", dict(zip(WIRED, wiring, strict=True))) for wiring in WIRINGS),
    *(("convolutional", settings) for settings in CONVOLUTIONAL),
]
EVERY = pytest.mark.parametrize(("family", "settings"), NETWORKS, ids=str)


@EVERY
def test_token_by_token_gives_what_the_whole_target_gives(family, settings):
    """So that no prediction sees a later token."""
    for each in ({"cell": "lstm", "num_layers": 2}, {"cell": "gru"}) if family == "recurrent" else ({},):
        network = pair(family, **settings, **each)
        source, attention_mask, target = batch()
        state = network.begin(source, attention_mask)
        pieces = target.split([1, 2, 1, 1] if family == "convolutional" else 1, dim=1)
        steps = [network.advance(token, state) for token in pieces]
        torch.testing.assert_close(torch.cat(steps, dim=1), network(source, attention_mask, target))


@EVERY
def test_neither_padding_nor_what_else_is_in_the_batch_changes_anything(family, settings):
    more = {"bidirectional": False, "reverse_source": True} if family == "recurrent" else {}
    network = pair(family, seed=3, **settings, **more)  # of each family, some targets end sooner than others
    source, attention_mask, target = batch()
    source = torch.where(attention_mask, source, torch.randint(3, VOCABULARY, source.shape))
    together, found = network(source, attention_mask, target), beam_search(network, source, attention_mask, 9, 3, 0.6)
    for place, length in enumerate(attention_mask.sum(1).tolist()):
        alone = source[place : place + 1, :length]
        torch.testing.assert_close(network(alone, None, target[place : place + 1])[0], together[place])
        searched = beam_search(network, alone, None, 9, 3, 0.6)
        assert searched.sequences()[0] == found.sequences()[place]
        torch.testing.assert_close(searched.scores[0], found.scores[place])


@pytest.mark.parametrize("settings", CONVOLUTIONAL)
def test_the_whole_network_is_that_of_gehring_et_al(settings):
    network = pair("convolutional", **settings)
    source, attention_mask, target = batch()
    length, reach = int(attention_mask[1].sum()), settings.get("filter_width", 3)
    half = math.sqrt(0.5)

    def embedded(embedding, tokens):
        return embedding.tokens.weight[tokens] + embedding.positions.embedding.weight[: len(tokens)]

    def convolved(block, x, before):
        """Equation of section 3.2 for each token, whose filter sees so many tokens before it."""
        weight = block.map.weight.unflatten(1, (x.shape[1], reach))
        padded = functional.pad(x.T, (before, reach - 1 - before))
        return functional.glu(functional.conv1d(padded, weight, block.map.bias), dim=0).T

    e = embedded(network.source_embedding, source[1, :length])
    x = network.encoder.enter(e)
    for block in network.encoder.blocks:
        x = (x + convolved(block, x, reach // 2)) * half
    z = network.encoder.leave(x)
    g = embedded(network.target_embedding, target[1])
    x = network.decoder.enter(g)
    for block, attention in zip(network.decoder.blocks, network.decoder.attention, strict=True):
        h = convolved(block, x, reach - 1)
        d = (attention.enter(h) + g) * half
        c = (d @ z.T).softmax(dim=1) @ ((z + e) * half)
        x = (x + (h + attention.leave(c * length * math.sqrt(1 / length))) * half) * half
    logits = network.decoder.leave(x) @ network.head.own.weight.T
    torch.testing.assert_close(logits, network(source, attention_mask, target)[1])


def score(network, source, tokens, penalty):
    target = torch.tensor([[START, *tokens]])
    chosen = network(source, None, target[:, :-1]).log_softmax(-1).gather(-1, target[:, 1:, None])
    return float(chosen.sum().detach()) / length_penalty(len(tokens), penalty)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_enough_beam_finds_the_best_of_all_targets(penalty):
    network, source = pair(size=6, seed=1), torch.tensor([[4, 5, 4]])
    targets = [[*word, END] for length in range(4) for word in itertools.product((1, 4, 5), repeat=length)]
    best = max(targets, key=lambda tokens: score(network, source, tokens, penalty))
    found = beam_search(network, source, None, 4, 200, penalty)
    assert found.sequences()[0] == best[:-1]
    assert float(found.scores[0]) == pytest.approx(score(network, source, best, penalty), rel=1e-4)


def test_beam_1_equals_greedy_and_a_beam_is_never_worse():
    for seed in range(5):
        network, source, mask = pair(seed=seed), torch.randint(4, 9, (6, 5)), torch.arange(5) < LENGTHS
        one = beam_search(network, source, mask, 12, 1, 0.6)
        logits = network(source, mask, functional.pad(one.tokens[:, :-1], (1, 0), value=START))
        logits[..., [PADDING, START]] = -math.inf
        assert (logits.argmax(-1) == one.tokens)[one.tokens != PADDING].all()
        has_ended = (one.tokens == END).any(dim=1)
        for found in (beam_search(network, source, mask, 12, size, 0.6) for size in (2, 4)):
            assert ((found.scores >= one.scores - 1e-5) & (found.tokens == END).any(dim=1))[has_ended].all()


class Waits(TorchDispatchMode):
    """Counts what makes a program wait for a GPU: numbers that it reads, and shapes that depend on numbers."""

    names = ("local_scalar_dense", "nonzero", "masked_select", "equal", "unique2", "unique_dim", "bincount")
    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.partition(".")[0].strip("_")
        places = args[1] if name in ("index", "index_put", "index_put_impl") else ()
        is_by_mask = any(place is not None and place.dtype == torch.bool for place in places)
        self.count += name in self.names or is_by_mask or function is torch.ops.aten.repeat_interleave.Tensor
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("family", SIZES)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_step_of_a_search_waits_for_the_device_once_at_most(monkeypatch, family, beam_size):
    network, _ = pair(family, seed=7), torch.manual_seed(1)
    source, mask = torch.randint(4, 9, (6, 5)), torch.arange(5) < LENGTHS
    # So that some end sooner than others.
    network.head.own.weight.data *= 20
    network.head.own.weight.data[END] *= 1.5
    waits, advance, steps = Waits(), EncoderDecoder.advance, []

    def counted(*given):
        steps.append((len(given[1]), waits.count))
        return advance(*given)

    monkeypatch.setattr(EncoderDecoder, "advance", counted)
    monkeypatch.setattr(torch.Tensor, "tolist", None)
    with waits:
        beam_search(network, source, mask, 12, beam_size, 0.6)
    rows, before = zip(*steps, strict=True)
    assert len(set(rows)) > 1
    assert {after - before for before, after in itertools.pairwise([*before, waits.count])} <= {0, 1}


@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        *((Sampling(**each), [0.2, 0.5, 0.3]) for each in ({}, {"top_k": 99}, {"top_p": 1.0})),
        (Sampling(temperature=0.5), [4 / 38, 25 / 38, 9 / 38]),
        *((Sampling(temperature=temperature), [0, 1, 0]) for temperature in (0, 1e-9)),
        *((Sampling(**each), [0, 5 / 8, 3 / 8]) for each in ({"top_k": 2}, {"top_p": 0.6})),
        *((Sampling(**each), [0, 1, 0]) for each in ({"top_p": 0.4}, {"top_k": 2, "top_p": 0.6})),
    ],
)
def test_tokens_are_drawn_as_often_as_they_are_likely(settings, shares):
    logits = torch.cat([torch.zeros(len(SPECIAL)), torch.tensor([0.2, 0.5, 0.3]).log()]).expand(4000, -1)
    tokens = draw_token(logits, torch.linspace(0, 1, 4000, dtype=torch.float64), settings)
    drawn = torch.bincount(tokens, minlength=logits.shape[1])[len(SPECIAL) :] / 4000
    assert drawn.tolist() == pytest.approx(shares, abs=0.002)
