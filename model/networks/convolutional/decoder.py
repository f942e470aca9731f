"""The convolutional decoder and the decoder's state. The decoder may attend to the source sequence of a pair."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.config.networks.convolutional import ConvolutionalConfig
from model.config.networks.network import EncoderDecoder
from model.networks.bodies import Source, State, StoresWeights
from model.networks.convolutional.block import HALF, Block, build_map, matrices_of_maps
from model.networks.roles import Matrix


@dataclass(frozen=True)
class Memory:
    """The keys and values of the source tokens; the attentions of all blocks share them.

    Attributes:
        keys, values: shape (sources, source time, d_model).
        attention_mask: the mask of the `Source`.
    """

    keys: Tensor
    values: Tensor
    attention_mask: Tensor | None

    def select(self, sources: Tensor) -> "Memory":
        """Return the memory of the given sources, in the given order."""
        return Memory(
            self.keys[sources],
            self.values[sources],
            None if self.attention_mask is None else self.attention_mask[sources],
        )


@dataclass
class ConvolutionalState:
    """The state of the decoder.

    Attributes:
        windows: the last inputs of each block, one tensor per block, shape (rows, filter width - 1, filters). Before
            the first token, the list is empty.
        memory: the keys and values of the source; None = no source.
        length: the number of decoded tokens.
    """

    windows: list[Tensor]
    memory: Memory | None
    length: int = 0

    def initial(self) -> "ConvolutionalState":
        """Return a state with the sources of this state, but without decoded tokens."""
        return replace(self, windows=[], length=0)

    def select(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Keep only the given rows and sources (None = all sources), in the given order; a row may occur twice."""
        self.windows = [window[rows] for window in self.windows]
        if sources is not None and self.memory is not None:
            self.memory = self.memory.select(sources)


class Attention(nn.Module):
    """The attention of a block; its query combines the block's output with the target embedding at the same position.

    h is the block's output, g the target embedding, z_j the encoder's output for the source token j, and e_j the
    embedding of this token. W and b are a learned matrix and bias, and m is the number of source tokens.

    - The query is d = sqrt(0.5) (W h + b + g).
    - The weights a_j are the softmax of the products d z_j over j.
    - The context is sqrt(m) times the sum of a_j sqrt(0.5) (z_j + e_j) over j.

    Source: Gehring et al. 2017, section 3.3, equations 1 and 2; the factors sqrt(0.5) and sqrt(m): section 3.4.
    """

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.enter = build_map(config, config.filters, config.d_model)
        self.leave = build_map(config, config.d_model, config.filters)
        # None = do not store weights; see model.attention_maps.
        self.stored_weights: list[Tensor] | None = None

    def forward(self, h: Tensor, g: Tensor, memory: Memory) -> Tensor:
        """Return sqrt(0.5) * (h + V c), where c is the context, and V maps c to the shape of `h`.

        Args:
            h: (rows, time, filters), the output of the block.
            g: (rows, time, d_model), the embedding of the target tokens.
            memory: the keys and values of the source sequences. Several consecutive rows may attend to the same source
                sequence.
        """
        d = (self.enter(h) + g) * HALF
        scores = d.reshape(len(memory.keys), -1, d.shape[2]) @ memory.keys.transpose(1, 2)
        if memory.attention_mask is None:
            scale = math.sqrt(memory.keys.shape[1])
            context = (weights := scores.softmax(dim=-1)) @ memory.values * scale
        else:
            weights = scores.masked_fill(~memory.attention_mask.unsqueeze(1), -torch.inf).softmax(dim=-1)
            lengths = memory.attention_mask.sum(dim=1).to(scores.dtype)
            context = weights @ memory.values * lengths.sqrt()[:, None, None]
        if self.stored_weights is not None:
            self.stored_weights.append(weights.unsqueeze(1))
        return (h + self.leave(context.view_as(d))) * HALF


class ConvolutionalDecoder(nn.Module):
    """Causal blocks with residual connections; if there is a source, an attention follows each block."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        is_pair = isinstance(config, EncoderDecoder)
        layers = config.decoder_layers if isinstance(config, EncoderDecoder) else config.num_layers
        self.width, self.dropout, self.reach = config.d_model, config.dropout, config.filter_width - 1
        self.enter = build_map(config, config.d_model, config.filters, dropout=config.dropout)
        self.blocks = nn.ModuleList(Block(config, causal=True) for _ in range(layers))
        self.attention = nn.ModuleList(Attention(config) for _ in range(layers if is_pair else 0))
        self.leave = build_map(config, config.filters, config.d_model)

    def forward(self, x: Tensor, source: Source | None = None, state: State | None = None) -> Tensor:
        """Return every token's representation; see `DecoderBody`."""
        assert state is None or isinstance(state, ConvolutionalState)
        memory = self._project_source(source) if state is None else state.memory
        inner, windows = self.enter(x), []
        for place, block in enumerate(self.blocks):
            before = state.windows[place] if state is not None and state.windows else None
            if state is not None:
                inputs = (
                    functional.pad(inner, (0, 0, self.reach, 0)) if before is None else torch.cat([before, inner], 1)
                )
                windows.append(inputs[:, inputs.shape[1] - self.reach :])
            h = block(inner, before=before)
            if memory is not None:
                h = self.attention[place](h, x, memory)
            inner = (inner + h) * HALF
        if state is not None:
            state.windows, state.length = windows, state.length + x.shape[1]
        return functional.dropout(self.leave(inner), self.dropout, self.training)

    def begin(self, source: Source | None = None) -> ConvolutionalState:
        """Return the state before the first token."""
        return ConvolutionalState([], self._project_source(source))

    def attentions(self) -> Sequence[StoresWeights]:
        """Return an empty list, because there is no self-attention."""
        return []

    def source_attentions(self) -> Sequence[StoresWeights]:
        """Return the cross-attention of each block."""
        return [attention for attention in self.attention if isinstance(attention, Attention)]

    def matrices(self) -> list[Matrix]:
        """Return the weight matrices of all linear maps."""
        return matrices_of_maps(self)

    def _project_source(self, source: Source | None) -> Memory | None:
        """Return the keys and values of a source; None = no source.

        Each attention sends two gradients to the encoder's outputs, through keys and through values. So these gradients
        are divided by twice the number of attentions. The gradients of the embeddings stay unscaled (Gehring et al.
        2017, section 3.4).
        """
        if source is None:
            return None
        share = 1 / (2 * len(self.attention))
        keys = source.outputs * share + source.outputs.detach() * (1 - share)
        (embedded,) = source.more
        return Memory(keys, (keys + embedded) * HALF, source.attention_mask)
