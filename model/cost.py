"""Computes the costs of a training and of an example, in multiplications; needs only the configuration."""

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
    """The amount of computation in a forward pass, for one token.

    Attributes:
        products: the number of multiplications.
        numbers: the number of values written to memory; in small networks, writing takes most of the time.
        blocks: the number of blocks that run one after the other: the layers, and one block for everything before and
            after them. For a decoder that goes token by token, see `_recurrent`.
    """

    products: float
    numbers: float
    blocks: float


def cost_of_unit(config: Config[Any, Any]) -> float:
    """Return a value that is proportional to the cost of training from one evaluation to the next.

    The value covers only the forward passes. The backward pass and the evaluations change the cost of all trials by
    the same factor.

    If `evaluate_every_steps` is set, the value is the cost of this many steps. If not, there is one evaluation per
    epoch, and the value depends on the data:

    - For running text, the value is the cost of one token. The cost of an epoch is proportional to this value, because
      an epoch has equally many tokens in all trials.
    - For other data, the value is the cost of one example, because an epoch has equally many examples in all trials.

    If the examples differ in length, a shuffled batch pads its sequences to the longest one. For a batch of n
    sequences, the longest length is estimated as sqrt(2 ln n) standard deviations above the mean length. The expected
    maximum of n standard normal numbers is at most sqrt(2 ln n) (Gumbel 1958).
    """
    training = config.training
    is_text = isinstance(config.data, LanguageModellingConfig)
    length, batch = config.data.context if is_text else training.cost_length, training.batch_size
    if training.batch_tokens is not None:
        batch = min(batch, max(1, training.batch_tokens // length))
    if config.data.lengths_differ and training.batching == "shuffled":
        length = round(length * (1 + training.cost_spread * math.sqrt(2 * math.log(batch))))
    work = _work_at(config, length)
    per_example = length * (work.products + training.cost_number * work.numbers)
    per_batch = training.cost_step * work.blocks
    if training.evaluate_every_steps is None:
        return (per_example + per_batch / batch) / (length if is_text else 1)
    return training.evaluate_every_steps * training.accumulation * (batch * per_example + per_batch)


def cost_per_example(config: Config[Any, Any]) -> float:
    """Return the cost of a forward pass of one example, in multiplications.

    The example has `training.cost_length` tokens; a pair has this many tokens on each side. A number written to memory
    counts as `training.cost_number` multiplications.
    """
    length = config.training.cost_length
    work = _work_at(config, length)
    return length * (work.products + config.training.cost_number * work.numbers)


def _work_at(config: Config[Any, Any], length: int) -> Work:
    return work_of(config.model, length, vocabulary_of(config.data, config.training.cost_vocabulary))


def vocabulary_of(data: DataConfig, otherwise: int) -> int:
    """Return the number of different tokens that the network can predict, without special tokens; 0 = no tokens.

    If the number depends on the data, the result is an estimate:
        - Without `data.max_size`, the estimate is the argument `otherwise`.
        - With `data.max_size` and the tokenization `words` or `subwords`, the estimate is `data.max_size`, because a
          vocabulary usually reaches this size.
        - With `data.max_size` and the tokenization `characters` or `blanks`, the estimate is the smaller of `otherwise`
          and `data.max_size`.
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
    """Return the `Work` of a forward pass for one token.

    For an encoder-decoder, return the work for one source token and one target token together. `products` counts the
    multiplications that torch.utils.flop_counter counts, without the multiplications of these layers:
        - the linear map of `bridge=mlp`, which runs only once per sequence;
        - the head of a classifier, which runs only once per sequence;
        - the head of a tagger;
        - the layer that reads rows of numbers.

    Args:
        model: the network.
        length: the number of tokens of a sequence.
        vocabulary: the number of different tokens that the network can predict; 0 = the network predicts no tokens.
    """
    if isinstance(model, RecurrentConfig):
        work, width = _recurrent(model, length), model.hidden_width
    elif isinstance(model, ConvolutionalConfig):
        work, width = _convolutional(model, length), model.d_model
    else:
        assert isinstance(model, TransformerConfig)
        work, width = _transformer(model, length), model.d_model
    # The head writes the logits, and the softmax as many numbers again. Count them only once, because writing them
    # takes less time than writing most other numbers.
    return Work(work.products + vocabulary * width, work.numbers + vocabulary, work.blocks)


def _transformer(model: TransformerConfig, length: int) -> Work:
    """Return the `Work` of a Transformer's blocks; in a decoder with a source, each block also has cross-attention.

    `numbers` counts the values that each part of a block writes:
        - An attention writes its norm, queries, keys, values, weighted sums, output projection, dropout and residual
          sum.
        - A head of an attention writes its scores, masked scores, softmax and dropout.
        - A feed-forward network writes its norm, output, dropout and residual sum.
        - The inner layer of a feed-forward network writes its linear map, nonlinearity and dropout, and with swiglu
          also its gate.

    Source: Kaplan et al. 2020, "Scaling laws for neural language models", table 1; this function also counts the
    weighted sums of attention.
    """
    reading = model.decoder_layers if isinstance(model, EncoderDecoder) else 0
    blocks = model.num_layers + reading
    widths = model.num_heads * (model.head_key_width + model.head_value_width)
    key_widths = model.head_keys * (model.head_key_width + model.head_value_width)
    matrices = 3 if model.nonlinearity == "swiglu" else 2
    attention = model.d_model * (widths + key_widths) + length * widths
    feed_forward = matrices * model.d_model * model.feed_forward_width
    written = 4 * model.d_model + widths + key_widths + 4 * model.num_heads * length
    written_inside = 4 * model.d_model + (matrices + 1) * model.feed_forward_width
    return Work(
        float(blocks * (attention + feed_forward) + reading * attention),
        float(blocks * (written + written_inside) + reading * written),
        1 + blocks,
    )


def _recurrent(model: RecurrentConfig, length: int) -> Work:
    """Return the `Work` of the recurrent layers.

    `numbers` counts the values of gates, states and outputs. Attention adds the values of the scores, the softmax, the
    context and the head's input. The attention `mlp` also adds the values of the score function's hidden layer. The
    attentions `dot` and `bilinear` also add the values of the masked scores.

    `blocks` counts the layers, and attention as one more layer. A decoder that goes token by token runs each layer once
    per token, and each of these runs counts as half a block.
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
        # Each sequential run of a layer takes half as long as a block, in addition to its computations.
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
    """Return the `Work` of the convolutional blocks; the blocks of a decoder with a source also have attention.

    `numbers` counts these values:

    - Per block: the result of dropout, the filters' inputs, the two halves of the filters' outputs, the gated outputs,
      the residual sum and the scaled residual sum.
    - Per attention: the query, the scores, the softmax of the scores, the context, the mapped context and the residual
      sum.
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
