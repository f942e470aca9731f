"""What every network from sequence to sequence promises: token by token, in a batch, and of later targets."""

import itertools

import pytest
import torch
from torch import nn

from model.config.whole import parse
from model.data.tokens.vocabulary import PADDING, START
from model.decoding.beam_search import beam_search
from model.networks.encoder_decoder import EncoderDecoder
from tests.model.conftest import small

VOCABULARY = 9
SIZES = {
    "encoder_decoder": {},
    "recurrent_encoder_decoder": {"d_model": 6, "hidden_width": 8, "bidirectional": True, "head_scale": 1.0},
    "convolutional_encoder_decoder": {"d_model": 6, "filters": 8, "num_layers": 2, "head_scale": 1.0},
}


def pair(model, **settings):
    """A network in double precision, so that equal means equal."""
    values = {"dropout": 0.0} | SIZES[model] | settings
    config = parse(small("generated", model, **{f"model__{key}": value for key, value in values.items()}))
    torch.manual_seed(0)
    sizes = {"source_size": VOCABULARY, "target_size": VOCABULARY, "max_length": 12}
    network = EncoderDecoder(config.model, **sizes, shared=False).double()
    for name, parameter in network.named_parameters():
        # Biases begin at 0, where a wrong one would not be seen.
        if "bias" in name and model != "encoder_decoder":
            nn.init.normal_(parameter, std=0.5)
    return network.eval()


def batch(lengths=(7, 4, 1), time=5):
    """Sources of these lengths, their mask, and targets."""
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
NETWORKS = [
    *(
        pytest.param("encoder_decoder", {"positions": positions}, id=f"transformer-{positions}")
        for positions in ("none", "sinusoidal", "learned", "rotary", "alibi")
    ),
    *(
        pytest.param(
            "recurrent_encoder_decoder", wiring, id="-".join(("recurrent", *(str(value) for value in wiring.values())))
        )
        for wiring in WIRINGS
    ),
    *(
        pytest.param("convolutional_encoder_decoder", settings, id=f"convolutional-{number}")
        for number, settings in enumerate(
            [{"weight_norm": False}, {"filter_width": 5}, {"num_decoder_layers": 1, "filter_width": 1}]
        )
    ),
]
EVERY = pytest.mark.parametrize(("model", "settings"), NETWORKS)


@pytest.mark.quick("transformer-*", "convolutional-*", "recurrent-*-copy")
@pytest.mark.slow
@EVERY
def test_token_by_token_gives_what_the_whole_target_gives(model, settings):
    more = ({"cell": "lstm", "num_layers": 2}, {"cell": "gru"}) if model.startswith("recurrent") else ({},)
    for each in more:
        network = pair(model, **settings, **each)
        source, attention_mask, target = batch()
        state = network.begin(source, attention_mask)
        pieces = target.split([1, 2, 1, 1] if model.startswith("convolutional") else 1, dim=1)
        steps = [network.advance(token, state) for token in pieces]
        torch.testing.assert_close(torch.cat(steps, dim=1), network(source, attention_mask, target))


@pytest.mark.quick("transformer-*", "convolutional-*", "recurrent-*-mlp")
@pytest.mark.slow
@EVERY
def test_neither_padding_nor_what_else_is_in_the_batch_changes_anything(model, settings):
    more = {"bidirectional": False, "reverse_source": True} if model.startswith("recurrent") else {}
    network = pair(model, **settings, **more)
    source, attention_mask, target = batch()
    # What is there in place of padding must not matter.
    source = torch.where(attention_mask, source, torch.randint(3, VOCABULARY, source.shape))
    together, found = network(source, attention_mask, target), beam_search(network, source, attention_mask, 6, 3, 0.6)
    for place, length in enumerate(attention_mask.sum(1).tolist()):
        alone = source[place : place + 1, :length]
        torch.testing.assert_close(network(alone, None, target[place : place + 1])[0], together[place])
        searched = beam_search(network, alone, None, 6, 3, 0.6)
        assert searched.sequences()[0] == found.sequences()[place]
        torch.testing.assert_close(searched.scores[0], found.scores[place])


# What a decoder begins with does not decide what it sees: one bridge stands for all.
@pytest.mark.parametrize(
    ("model", "settings"), [case for case in NETWORKS if case.values[1].get("bridge", "copy") == "copy"]
)
def test_later_target_tokens_are_not_seen(model, settings):
    network = pair(model, **settings)
    source, attention_mask, target = batch()
    changed = target.clone()
    changed[:, 3:] = (changed[:, 3:] - 2) % (VOCABULARY - 3) + 3
    before, after = network(source, attention_mask, target), network(source, attention_mask, changed)
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3], after[:, 3])
