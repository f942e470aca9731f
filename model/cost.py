"""What a training costs on a study's clock: the operations of its steps, counted from the configuration alone."""

import math
from dataclasses import dataclass

from model.config.networks.convolutional import ConvolutionalConfig
from model.config.networks.network import EncoderDecoder, ModelConfig
from model.config.networks.recurrent import Reading, RecurrentConfig, RecurrentEncoderDecoder
from model.config.networks.transformer import TransformerConfig
from model.config.training import TrainingConfig

GATES = {"lstm": 4, "gru": 3}


@dataclass(frozen=True)
class Work:
    """What one forward pass does for one token: multiplications, numbers that are written, on which small networks
    spend most of their time, and parts (`blocks`) that run one after the other, with one for what comes before and
    after.
    """

    products: float
    numbers: float
    blocks: int


def cost_of_unit(model: ModelConfig, training: TrainingConfig, lengths_differ: bool) -> float:
    """Return the cost of training from one evaluation to the next, in multiplications; ValueError without the numbers
    of `training.cost_...`. Where `lengths_differ`, shorter sequences are padded to the longest of their batch.

    Without `evaluate_every_steps` that is an epoch, whose number of examples the configuration does not say: it is the
    same for all trials of a study, so that it is left out, and the cost is that of one example. The backward pass
    (twice the forward pass) and evaluations are left out for the same reason. The longest of a shuffled batch is longer
    than the mean by sqrt(2 ln batch) standard deviations, as that of so many normal numbers is at most (Gumbel 1958).
    """
    length, number, step = training.cost_length, training.cost_number, training.cost_step
    if length is None or number is None or step is None:
        raise ValueError("training.cost_length, cost_number, cost_step: must be given; take those of conf/training")
    batch = training.batch_size
    if training.batch_tokens is not None:
        batch = min(batch, max(1, training.batch_tokens // length))
    if lengths_differ and training.batching == "shuffled":
        length = round(length * (1 + training.cost_spread * math.sqrt(2 * math.log(batch))))
    work = work_of(model, length)
    per_example = length * (work.products + number * work.numbers)
    per_batch = step * work.blocks
    if training.evaluate_every_steps is None:
        return per_example + per_batch / batch
    return training.evaluate_every_steps * training.accumulation * (batch * per_example + per_batch)


def work_of(model: ModelConfig, length: int) -> Work:
    """Return the work of a sequence (a pair of sequences) of this length."""
    if isinstance(model, RecurrentConfig):
        return _recurrent(model, length)
    if isinstance(model, ConvolutionalConfig):
        return _convolutional(model, length)
    assert isinstance(model, TransformerConfig)
    return _transformer(model, length)


def _transformer(model: TransformerConfig, length: int) -> Work:
    """Count the work of blocks, each of an attention and a feed-forward network; one that reads a source has two.

    Products: the projections of queries, keys, values and of the result, the scores and sums of attention over `length`
    tokens, and the layers of the feed-forward network (Kaplan et al. 2020, "Scaling laws for neural language models",
    table 1, with the terms of attention over tokens). Numbers, per attention: norm, queries, keys, values, results,
    their projection, dropout and residual sum; the scores, their softmax and dropout, once more with the mask. Per
    feed-forward network: its inner layer before and after the nonlinearity, and after dropout; and norm, result,
    dropout and residual sum.
    """
    reading = model.decoder_layers if isinstance(model, EncoderDecoder) else 0
    blocks = model.num_layers + reading
    widths = model.num_heads * (model.head_key_width + model.head_value_width)
    kept = model.head_keys * (model.head_key_width + model.head_value_width)
    matrices = 3 if model.nonlinearity == "swiglu" else 2
    attention = model.d_model * (widths + kept) + length * widths
    feed_forward = matrices * model.d_model * model.feed_forward_width
    written = 4 * model.d_model + 2 * widths + 4 * model.num_heads * length
    written_inside = 4 * model.d_model + (matrices + 1) * model.feed_forward_width
    return Work(
        float(blocks * (attention + feed_forward) + reading * attention),
        float(blocks * (written + written_inside) + reading * written),
        1 + blocks,
    )


def _recurrent(model: RecurrentConfig, length: int) -> Work:
    """Count the work of layers of cells.

    Products: each gate's maps from the input and from the state before; for attention the maps of its score, the scores
    and sums over `length` tokens, and the map to the head. Numbers: the gates, the state and the output; the scores and
    their softmax. A decoder that goes token by token has as many parts that run one after the other.
    """
    gates, width = GATES[model.cell], model.hidden_width
    halves = 2 if isinstance(model, Reading) and model.bidirectional else 1

    def cells(layers: int, input_width: int, halves: int) -> float:
        return gates * width * (input_width + (layers - 1) * width + layers * width / halves)

    products = cells(model.num_layers, model.d_model, halves)
    numbers = float(model.num_layers * (gates + 2) * width)
    blocks = 1 + model.num_layers
    if isinstance(model, RecurrentEncoderDecoder):
        layers, has_attention = model.decoder_layers, model.attention != "none"
        is_fed = model.input_feeding or model.attend == "before"
        products += cells(layers, model.d_model + (width if is_fed else 0), 1)
        numbers += layers * (gates + 2) * width
        blocks += layers * (length if is_fed else 1)
        if has_attention:
            inner = (model.attention_width or width) if model.attention == "mlp" else 1
            products += (2 * width + length * inner) * width + 2 * length * width
            numbers += length * (inner + 2) + 2 * width
            blocks += length if is_fed else 1
    return Work(products, numbers, blocks)


def _convolutional(model: ConvolutionalConfig, length: int) -> Work:
    """Count the work of blocks.

    Products: the maps from and to the embeddings, each block's filters, and for attention its maps, the scores and sums
    over `length` tokens. Numbers: what the filters see, their halves, gates and the residual sum; the scores and their
    softmax, the context, its map and the sum.
    """
    filters, width = model.filters, model.d_model
    reading = model.decoder_layers if isinstance(model, EncoderDecoder) else 0
    blocks = model.num_layers + reading
    ends = 2 if reading else 1
    attention = 2 * width * filters + 2 * length * width
    return Work(
        float(blocks * 2 * model.filter_width * filters**2 + ends * 2 * width * filters + reading * attention),
        float(blocks * (model.filter_width + 6) * filters + reading * (2 * length + 2 * width + 2 * filters)),
        1 + blocks,
    )
