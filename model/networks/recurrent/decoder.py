"""The recurrent decoder and the decoder's state. The decoder may read the source sequence of a pair."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.config.networks.recurrent import RecurrentConfig, RecurrentEncoderDecoder
from model.networks.bodies import Source, State, StoresWeights
from model.networks.recurrent.attention import Attention
from model.networks.recurrent.cells import Cells, Hidden
from model.networks.roles import Matrix


@dataclass
class RecurrentState:
    """The state of the decoder.

    Attributes:
        hidden: the states of all layers. The shape of each tensor is (layers, rows, width); see `Hidden`.
        fed: with `input_feeding`, the decoder's output at the previous token, shape (rows, width), which the cells read
            in the next step. Without `input_feeding`, nothing reads `fed`.
        keys: the keys of the source; None = no attention.
        source: the source; None = no source.
        first: the value of `hidden` before the first token, with one row per source.
        length: the number of decoded tokens.
    """

    hidden: Hidden
    fed: Tensor
    keys: Tensor | None
    source: Source | None
    first: Hidden
    length: int = 0

    def initial(self) -> "RecurrentState":
        """Return a state with the sources of this state, but without decoded tokens."""
        return replace(self, hidden=self.first, fed=torch.zeros_like(self.first[0][0]), length=0)

    def select(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Keep only the given rows and sources (None = all sources), in the given order; a row may occur twice."""
        self.hidden, self.fed = tuple(part[:, rows] for part in self.hidden), self.fed[rows]
        if sources is not None:
            self.first = tuple(part[:, sources] for part in self.first)
            if self.source is not None:
                outputs, attention_mask = self.source.outputs, self.source.attention_mask
                self.source = Source(outputs[sources], None if attention_mask is None else attention_mask[sources])
            self.keys = None if self.keys is None else self.keys[sources]

    def spread(self, rows: int) -> None:
        """Repeat the row of each source equally often, so that the state has `rows` rows in total.

        A state that already has `rows` rows does not change.
        """
        times = rows // self.fed.shape[0]
        if times > 1:
            self.hidden = tuple(part.repeat_interleave(times, dim=1) for part in self.hidden)
            self.fed = self.fed.repeat_interleave(times, dim=0)


class RecurrentDecoder(nn.Module):
    """Recurrent cells over the target sequence. In each step, attention to the source runs before or after the cells.

    Without attention, the head reads the outputs of the cells.

    With `attend=after` (Luong et al. 2015, equation 5), the query is the new state h of the cells, and the head reads
    tanh(W [context; h]). With `input_feeding`, the cells read the head's input of the previous step, too (section 3.3).

    With `attend=before` (Bahdanau et al. 2015, section A.2.2), the query is the previous state, and the cells read the
    context together with the token y. The head reads W [previous state; y; context], reduced to the maximum of each
    pair of neighbouring numbers.

    With several layers, the query comes from the last layer, and the first layer reads the context.

    The setting `bridge` determines the initial states. `copy` copies the encoder's last states (Sutskever et al. 2014).
    `mlp` computes tanh(W h) from the last state h of the encoder's last layer (Bahdanau et al. 2015). `zero` sets all
    states to 0.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        width = config.hidden_width
        pair = config if isinstance(config, RecurrentEncoderDecoder) else None
        has_attention = pair is not None and pair.attention != "none"
        self.width, self.dropout = width, config.dropout
        self.is_before = pair is not None and has_attention and pair.attend == "before"
        self.is_fed = pair is not None and pair.input_feeding
        self.bridge = "zero" if pair is None else pair.bridge
        self.num_parts = 2 if config.cell == "lstm" else 1
        layers = config.num_layers if pair is None else pair.decoder_layers
        input_width = config.d_model + (width if self.is_before or self.is_fed else 0)
        self.cells = Cells(config.cell, input_width, width, layers, config.dropout)
        self.attention = self.combine = self.begins = None
        if pair is not None and has_attention:
            self.attention = Attention(pair.attention, width, pair.attention_width or width)
            rest = width + config.d_model if self.is_before else width
            self.combine = nn.Linear(width + rest, 2 * width if self.is_before else width, bias=self.is_before)
        if self.bridge == "mlp":
            self.begins = nn.Linear(width, layers * self.num_parts * width)

    def forward(self, x: Tensor, source: Source | None = None, state: State | None = None) -> Tensor:
        """Return every token's representation; see `DecoderBody`."""
        now = self._begin(source, len(x)) if state is None else state
        assert isinstance(now, RecurrentState)
        now.spread(len(x))
        now.length += x.shape[1]
        if self.is_before or self.is_fed:
            outputs = torch.stack([self._step(token, now) for token in x.unbind(1)], dim=1)
        else:
            hidden, now.hidden = self.cells(x, now.hidden)
            outputs = hidden if self.attention is None else self._combined([self._context(hidden, now), hidden])
        return functional.dropout(outputs, self.dropout, self.training)

    def begin(self, source: Source | None = None) -> RecurrentState:
        """Return the state before the first token."""
        return self._begin(source, 1 if source is None else len(source.outputs))

    def attentions(self) -> Sequence[StoresWeights]:
        """Return an empty list, because there is no self-attention."""
        return []

    def source_attentions(self) -> Sequence[StoresWeights]:
        """Return a list with the cross-attention; without attention, an empty list."""
        return [] if self.attention is None else [self.attention]

    def matrices(self) -> list[Matrix]:
        """Return the matrices of the bridge and of the layer that combines context and state."""
        return [Matrix(m.weight, (len(m.weight),)) for m in (self.combine, self.begins) if m is not None]

    def _step(self, token: Tensor, now: RecurrentState) -> Tensor:
        """Update the state `now` with the next token of each row; return the head's input, shape (rows, width).

        `token` holds the embeddings of the next tokens, shape (rows, d_model).
        """
        if not self.is_before:
            hidden, now.hidden = self.cells.step(torch.cat([token, now.fed], dim=-1), now.hidden)
            now.fed = self._combined([self._context(hidden.unsqueeze(1), now).squeeze(1), hidden])
            return now.fed
        before = now.hidden[0][-1]
        context = self._context(before.unsqueeze(1), now).squeeze(1)
        _, now.hidden = self.cells.step(torch.cat([token, context], dim=-1), now.hidden)
        return self._combined([before, token, context])

    def _context(self, query: Tensor, now: RecurrentState) -> Tensor:
        assert self.attention is not None
        assert now.source is not None
        assert now.keys is not None
        return self.attention(query, now.keys, now.source.outputs, now.source.attention_mask)

    def _combined(self, parts: list[Tensor]) -> Tensor:
        assert self.combine is not None
        mixed = self.combine(torch.cat(parts, dim=-1))
        # Maxout of pairs: Goodfellow et al. 2013.
        return torch.maximum(mixed[..., ::2], mixed[..., 1::2]) if self.is_before else torch.tanh(mixed)

    def _begin(self, source: Source | None, rows: int) -> RecurrentState:
        first = self._first(source, rows)
        keys = (
            self.attention.project_keys(source.outputs) if self.attention is not None and source is not None else None
        )
        return RecurrentState(first, torch.zeros_like(first[0][0]), keys, source, first)

    def _first(self, source: Source | None, rows: int) -> Hidden:
        """Return the initial state of all layers: h for a GRU, h and c for an LSTM, each (layers, rows, width)."""
        if source is not None and self.bridge == "copy":
            return source.more
        layers = self.cells.num_layers
        if source is not None and self.begins is not None:
            states = torch.tanh(self.begins(source.more[0][-1])).view(-1, self.num_parts, layers, self.width)
            return tuple(states.permute(1, 2, 0, 3).contiguous())
        zeros = next(self.parameters()).new_zeros(layers, rows, self.width)
        return (zeros,) * self.num_parts
