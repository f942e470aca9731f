"""What a training costs on a study's clock, counted from its configuration."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model.config.whole import parse
from model.cost import cost_per_example, work_of
from model.networks.encoder_decoder import EncoderDecoder
from model.networks.language_model import LanguageModel
from model.objective import describe_cost
from tests.model.conftest import compose, small

NETWORKS = ("encoder_decoder", "recurrent_encoder_decoder", "convolutional_encoder_decoder")
LENGTH, VOCABULARY = 20, 40
ATTENTIONS = [
    {"attention": attention, "attend": attend, "input_feeding": is_fed, "attention_width": inner}
    for attention, inner in (("mlp", None), ("mlp", 40), ("dot", None), ("bilinear", None))
    for attend, is_fed in (("before", False), ("after", False), ("after", True))
]
COUNTED = [
    ("encoder_decoder", {"num_decoder_layers": 2, "num_key_heads": 1}),
    ("decoder", {"nonlinearity": "swiglu"}),
    ("convolutional_encoder_decoder", {"filter_width": 5}),
    ("convolutional_decoder", {}),
    ("recurrent_decoder", {"cell": "gru", "hidden_width": 24}),
    ("recurrent_encoder_decoder", {"attention": "none", "bridge": "copy"}),
    ("recurrent_encoder_decoder", {"attention": "none", "bridge": "copy", "bidirectional": False}),
    *(("recurrent_encoder_decoder", {"bridge": "copy", "hidden_width": 24} | attention) for attention in ATTENTIONS),
]


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize(("model", "settings"), COUNTED)
def test_products_are_those_that_torch_counts_in_a_forward_pass(model, settings):
    data = "generated" if "encoder" in model else "language_modelling"
    config = parse(small(data, model, **{f"model__{key}": value for key, value in settings.items()})).model
    tokens = torch.zeros(1, LENGTH, dtype=torch.long)
    if "encoder" in model:
        sizes = {"source_size": VOCABULARY, "target_size": VOCABULARY, "max_length": LENGTH}
        network, inputs = EncoderDecoder(config, **sizes, shared=False), (tokens, None, tokens)
    else:
        network, inputs = LanguageModel(config, vocabulary_size=VOCABULARY, max_length=LENGTH), (tokens,)
    # oneDNN's cells are one operation, in which torch counts nothing.
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        network(*inputs)
    assert 2 * LENGTH * work_of(config, LENGTH, VOCABULARY).products == counter.get_total_flops()


@pytest.mark.parametrize(
    ("data", "settings", "expected"),
    [
        ("generated", {"data__num_symbols": 30}, 30),
        ("translation", {"data__max_size": 500}, 500),
        ("translation", {"data__max_size": 500, "data__tokens": "characters"}, 70),
        ("translation", {"data__max_size": 500, "data__target_tokens": "blanks"}, 70),
        ("translation", {"data__max_size": 50, "data__tokens": "characters"}, 50),
        ("translation", {"data__max_size": None, "data__tokens": "words"}, 70),
    ],
)
def test_the_head_is_counted_over_what_is_known_of_the_vocabulary(data, settings, expected):
    """By the cost of one more token in each of a pair's targets: its products, and a number that is written."""
    given = {"training__cost_vocabulary": 70, "training__cost_spread": 0.0, "model__d_model": 64}
    settings = given | settings
    config = parse(compose(data, "encoder_decoder", **settings))
    length, number = config.training.cost_length, config.training.cost_number
    without = work_of(config.model, length, 0)
    headless = length * (without.products + number * without.numbers)
    assert cost_per_example(config) - headless == pytest.approx(length * expected * (64 + number))


@pytest.mark.parametrize("model", NETWORKS)
def test_more_layers_and_smaller_batches_cost_more(model):
    cost = describe_cost(compose("translation", model))
    assert cost < describe_cost(compose("translation", model, model__num_layers=5))
    assert cost < describe_cost(compose("translation", model, training__batch_size=1, training__cost_spread=0.0))


def test_what_differs_between_lengths_is_padded_in_shuffled_batches_alone():
    def ratio(data, **changes):
        """How much dearer an example is in batches of 256 than in batches of 16, without what a step costs besides."""
        large, small = (
            describe_cost(compose(data, training__batch_size=size, training__cost_step=0.0, **changes))
            for size in (256, 16)
        )
        return large / small

    assert ratio("text_classification") > 1.1
    assert ratio("text_classification", training__batching="by_length") == 1
    assert ratio("digits") == 1
