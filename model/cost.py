"""Counts the cost of a training, and of an example, in operations, from the configuration alone."""

import math
from dataclasses import dataclass
from typing import Any

from model.config.data import DataConfig, LanguageModellingConfig
from model.config.networks.convolutional import ConvolutionalConfig
from model.config.networks.network import EncoderDecoder, ModelConfig
from model.config.networks.recurrent import Reading, RecurrentConfig, RecurrentEncoderDecoder
from model.config.networks.transformer import TransformerConfig
from model.config.pairs import GeneratedConfig, TranslationConfig
from model.config.whole import Config

GATES = {"lstm": 4, "gru": 3}


@dataclass(frozen=True)
class Work:
    """The work of a forward pass for one token.

    Attributes:
        products: multiplications.
        numbers: numbers written to memory, which take most of the time of small networks.
        blocks: parts that run one after the other; one of them is all that comes before and after the layers.
    """

    products: float
    numbers: float
    blocks: float


def cost_of_unit(config: Config[Any, Any]) -> float:
    """Return the cost of training from one evaluation to the next, in multiplications, up to a constant factor.

    Without `evaluate_every_steps` that is an epoch. The number of its examples is the same for all trials of a study,
    so it is left out, and the cost is that of one example. For the same reason, the backward pass (twice the forward
    pass) and evaluations are left out.

    If lengths differ, sequences are padded to the longest of their batch. In a shuffled batch, this exceeds the mean by
    sqrt(2 ln batch) standard deviations, the bound for so many normal numbers (Gumbel 1958).
    """
    training = config.training
    length, batch = training.cost_length, training.batch_size
    if training.batch_tokens is not None:
        batch = min(batch, max(1, training.batch_tokens // length))
    if config.data.lengths_differ and training.batching == "shuffled":
        length = round(length * (1 + training.cost_spread * math.sqrt(2 * math.log(batch))))
    work = _work_at(config, length)
    per_example = length * (work.products + training.cost_number * work.numbers)
    per_batch = training.cost_step * work.blocks
    if training.evaluate_every_steps is None:
        return per_example + per_batch / batch
    return training.evaluate_every_steps * training.accumulation * (batch * per_example + per_batch)


def cost_per_example(config: Config[Any, Any]) -> float:
    """Return the cost of a forward pass of one example, in multiplications.

    The example has `training.cost_length` tokens; a pair has so many on either side. A number written to memory counts
    as `training.cost_number` multiplications.
    """
    length = config.training.cost_length
    work = _work_at(config, length)
    return length * (work.products + config.training.cost_number * work.numbers)


def _work_at(config: Config[Any, Any], length: int) -> Work:
    return work_of(config.model, length, vocabulary_of(config.data, config.training.cost_vocabulary))


def vocabulary_of(data: DataConfig, otherwise: int) -> int:
    """Return the number of tokens of the head; 0 = there is no such head; `otherwise` if only the data determines it.

    Subwords reach `max_size`, and words nearly always do. Characters, and words between blanks, are fewer.
    """
    if isinstance(data, GeneratedConfig):
        return data.num_symbols
    if not isinstance(data, LanguageModellingConfig | TranslationConfig):
        return 0
    unit = data.target_tokens or data.tokens if isinstance(data, TranslationConfig) else data.tokens
    if data.max_size is None:
        return otherwise
    return data.max_size if unit in ("words", "subwords") else min(data.max_size, otherwise)


def work_of(model: ModelConfig, length: int, vocabulary: int) -> Work:
    """Return the work of a forward pass for one token (of pairs, for one token of either side).

    The products are those of torch.utils.flop_counter, without the one product per sequence of `bridge=mlp`.

    Args:
        model: the network.
        length: the number of tokens of a sequence.
        vocabulary: the number of tokens of the head; 0 = there is no such head.
    """
    if isinstance(model, RecurrentConfig):
        work, width = _recurrent(model, length), model.hidden_width
    elif isinstance(model, ConvolutionalConfig):
        work, width = _convolutional(model, length), model.d_model
    else:
        assert isinstance(model, TransformerConfig)
        work, width = _transformer(model, length), model.d_model
    # The head writes the logits, and its softmax once more, which takes less time than most numbers: count them once.
    return Work(work.products + vocabulary * width, work.numbers + vocabulary, work.blocks)


def _transformer(model: TransformerConfig, length: int) -> Work:
    """Return the work of the blocks: attention, in a decoder cross-attention, and a feed-forward network.

    Products: the projections of queries, keys, values and of the result, the scores and sums of attention over `length`
    tokens, and the layers of the feed-forward network (Kaplan et al. 2020, "Scaling laws for neural language models",
    table 1, with the terms of attention over tokens). Numbers per attention: norm, queries, keys, values, results,
    their projection, dropout and residual sum; the scores, their softmax and dropout, and the masked scores. Numbers
    per feed-forward network: its inner layer before and after the nonlinearity, and after dropout; norm, result,
    dropout and residual sum.
    """
    reading = model.decoder_layers if isinstance(model, EncoderDecoder) else 0
    blocks = model.num_layers + reading
    widths = model.num_heads * (model.head_key_width + model.head_value_width)
    key_widths = model.head_keys * (model.head_key_width + model.head_value_width)
    matrices = 3 if model.nonlinearity == "swiglu" else 2
    attention = model.d_model * (widths + key_widths) + length * widths
    feed_forward = matrices * model.d_model * model.feed_forward_width
    written = 4 * model.d_model + 2 * widths + 4 * model.num_heads * length
    written_inside = 4 * model.d_model + (matrices + 1) * model.feed_forward_width
    return Work(
        float(blocks * (attention + feed_forward) + reading * attention),
        float(blocks * (written + written_inside) + reading * written),
        1 + blocks,
    )


def _recurrent(model: RecurrentConfig, length: int) -> Work:
    """Return the work of the layers of cells.

    Products: the maps of each gate from the input and from the last state; for attention the maps of its score, the
    scores and sums over `length` tokens, and the map to the head. Numbers: the gates, the state and the output; the
    scores and their softmax, and with `attention=mlp` the hidden layer of the score. A decoder that goes token by token
    has a sequential part for each token.
    """
    gates, width = GATES[model.cell], model.hidden_width
    halves = 2 if isinstance(model, Reading) and model.bidirectional else 1

    def cells(layers: int, input_width: int, halves: int) -> float:
        return gates * width * (input_width + (layers - 1) * width + layers * width / halves)

    products = cells(model.num_layers, model.d_model, halves)
    numbers = float(model.num_layers * (gates + 2) * width)
    blocks: float = 1 + model.num_layers
    if isinstance(model, RecurrentEncoderDecoder):
        layers, has_attention = model.decoder_layers, model.attention != "none"
        is_fed = model.goes_token_by_token
        # A sequential part per token takes half as long as a block, in addition to its computations.
        times = length / 2 if is_fed else 1
        products += cells(layers, model.d_model + (width if is_fed else 0), 1)
        numbers += layers * (gates + 2) * width
        blocks += layers * times
        if has_attention:
            inner = (model.attention_width or width) if model.attention == "mlp" else 1
            # The maps from the state and from a token of the source, and the scores of the source's tokens.
            maps = {"mlp": 2 * width * inner, "dot": 0, "bilinear": width**2}[model.attention]
            score = inner if model.attention == "mlp" else width
            mixed = 2 * width * (2 * width + model.d_model) if model.attend == "before" else 2 * width**2
            products += maps + length * score + length * width + mixed
            numbers += length * (inner + 2) + 2 * width
            blocks += times
    return Work(products, numbers, blocks)


def _convolutional(model: ConvolutionalConfig, length: int) -> Work:
    """Return the work of the convolutional blocks.

    Products: the maps from and to the embeddings, the filters of each block, and for attention its maps, the scores and
    sums over `length` tokens. Numbers: the inputs of the filters, their halves, gates and the residual sum; the scores
    and their softmax, the context, its map and the sum.
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
