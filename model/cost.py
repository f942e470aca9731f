"""What a training costs on a study's clock: the operations of its steps, counted from the configuration alone."""

from model.config.network import EncoderDecoderConfig, ModelConfig
from model.config.training import TrainingConfig


def cost_of_unit(model: ModelConfig, training: TrainingConfig) -> float:
    """Return the cost of training from one evaluation to the next, in multiplications.

    Without `evaluate_every_steps` that is an epoch, whose number of examples the configuration does not say: it is the
    same for all trials of a study, so that it is left out, and the cost is that of one example. The backward pass
    (twice the forward pass) and evaluations are left out for the same reason.

    Raises:
        ValueError: the numbers of `training.cost_...` are missing.
    """
    length, number, step = training.cost_length, training.cost_number, training.cost_step
    if length is None or number is None or step is None:
        raise ValueError("training.cost_length, cost_number, cost_step: must be given; take those of conf/training")
    batch = training.batch_size
    if training.batch_tokens is not None:
        batch = min(batch, max(1, training.batch_tokens // length))
    per_example = length * (products(model, length) + number * numbers(model, length))
    per_batch = step * num_blocks(model)
    if training.evaluate_every_steps is None:
        return per_example + per_batch / batch
    return training.evaluate_every_steps * training.accumulation * (batch * per_example + per_batch)


def products(model: ModelConfig, length: int) -> float:
    """Return the multiplications of one token's forward pass in a sequence (a pair of sequences) of this length.

    Per block: the projections of queries, keys, values and of the result, the scores and sums of attention over
    `length` tokens, and the layers of the feed-forward network; a block that reads a source has a second attention
    (Kaplan et al. 2020, "Scaling laws for neural language models", table 1, with the terms of attention over tokens).
    """
    widths = model.num_heads * (model.head_key_width + model.head_value_width)
    attention = 2 * model.d_model * widths + length * widths
    feed_forward = _matrices(model) * model.d_model * model.feed_forward_width
    return float(_blocks(model) * (attention + feed_forward) + _reading_blocks(model) * attention)


def numbers(model: ModelConfig, length: int) -> float:
    """Return how many numbers one token's forward pass writes, on which small networks spend most of their time.

    Per attention: norm, queries, keys, values, results, their projection, dropout and residual sum; the scores over
    `length` tokens, their softmax and dropout, once more with the mask. Per feed-forward network: its inner layer
    before and after the nonlinearity, and after dropout; and norm, result, dropout and residual sum.
    """
    widths = model.num_heads * (model.head_key_width + model.head_value_width)
    attention = 4 * model.d_model + 2 * widths + 4 * model.num_heads * length
    feed_forward = 4 * model.d_model + (_matrices(model) + 1) * model.feed_forward_width
    return float(_blocks(model) * (attention + feed_forward) + _reading_blocks(model) * attention)


def num_blocks(model: ModelConfig) -> int:
    """Return the number of blocks, and one for what comes before and after them."""
    return 1 + _blocks(model)


def _matrices(model: ModelConfig) -> int:
    return 3 if model.nonlinearity == "swiglu" else 2


def _blocks(model: ModelConfig) -> int:
    return model.num_layers + _reading_blocks(model)


def _reading_blocks(model: ModelConfig) -> int:
    """Return the number of a decoder's blocks that read a source."""
    if not isinstance(model, EncoderDecoderConfig):
        return 0
    return model.num_decoder_layers or model.num_layers
