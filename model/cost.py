"""What a training costs on a study's clock: the operations of its steps, counted from the configuration alone."""

from model.config.network import EncoderDecoderConfig, ModelConfig
from model.config.training import TrainingConfig


def cost_of_unit(model: ModelConfig, training: TrainingConfig) -> float:
    """Return the cost of training from one evaluation to the next, in multiplications of weights and numbers.

    Without `evaluate_every_steps` that is an epoch, whose number of examples the configuration does not say: it is the
    same for all trials of a study, so that it is left out, and the cost is that of one example. Multiplications of the
    backward pass (twice those of the forward pass) and of evaluations are left out for the same reason.
    """
    length, step = training.cost_length, training.cost_step
    assert length is not None
    assert step is not None
    batch = training.batch_size
    if training.batch_tokens is not None:
        batch = min(batch, max(1, training.batch_tokens // length))
    per_example = operations(model, length)
    if training.evaluate_every_steps is None:
        return per_example + step * num_blocks(model) / batch
    batches = training.evaluate_every_steps * training.accumulation
    return batches * (batch * per_example + step * num_blocks(model))


def operations(model: ModelConfig, length: int) -> float:
    """Return the multiplications of one forward pass over a sequence of so many tokens (a pair of such).

    Per token and block: the projections of queries, keys, values and of the result, the scores and sums of attention
    over `length` tokens, and the two layers of the feed-forward network (three matrices with swiglu); a block of a
    decoder that reads a source has a second attention. (Kaplan et al. 2020, "Scaling laws for neural language models",
    table 1, with the attention's own terms.)
    """
    widths = model.num_heads * (model.head_key_width + model.head_value_width)
    attention = 2 * model.d_model * widths + length * widths
    matrices = 3 if model.nonlinearity == "swiglu" else 2
    block = attention + matrices * model.d_model * model.feed_forward_width
    per_token = model.num_layers * block
    if isinstance(model, EncoderDecoderConfig):
        per_token += (model.num_decoder_layers or model.num_layers) * (block + attention)
    return float(length * per_token)


def num_blocks(model: ModelConfig) -> int:
    """Return the number of blocks, and one for what comes before and after them."""
    decoder = (model.num_decoder_layers or model.num_layers) if isinstance(model, EncoderDecoderConfig) else 0
    return 1 + model.num_layers + decoder
