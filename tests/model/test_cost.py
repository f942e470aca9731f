"""What a training costs on a study's clock, counted from its configuration."""

import pytest

from model.objective import describe_cost
from tests.model.conftest import compose

NETWORKS = ("encoder_decoder", "recurrent_encoder_decoder", "convolutional_encoder_decoder")


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


def test_a_configuration_of_before_there_were_these_numbers_costs_what_it_did():
    config = compose("text_classification")
    assert config["training"].pop("cost_spread") > 0
    without = describe_cost(config)
    config["training"]["cost_spread"] = 0.0
    assert describe_cost(config) == without
    del config["training"]["cost_length"]
    with pytest.raises(ValueError, match=r"training\.cost_length, cost_number, cost_step: must be given"):
        describe_cost(config)
