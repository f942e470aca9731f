"""Layers of LSTM or GRU cells, over a whole sequence or token by token.

In shapes, batch is the number of sequences, time the number of tokens of one sequence, and width the number of outputs
of a layer per token.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from model.networks.roles import Matrix

# The states of all layers: the tensor h of a GRU, or the tensors h and c of an LSTM. Each tensor has the shape
# (layers, batch, width).
Hidden = tuple[Tensor, ...]


class Cells(nn.Module):
    """Layers of cells of one kind, with dropout between layers.

    LSTM: i, f and o are each sigmoid(W x + U h + b), g = tanh(W x + U h + b), c = f c + i g, h = o tanh(c).
    GRU: r and z are each sigmoid(W x + U h + b), n = tanh(W x + b + r (U h + b)), h = (1 - z) n + z h.

    Source: Hochreiter, Schmidhuber 1997, "Long short-term memory", with the forget gate of Gers et al. 2000; Cho et al.
    2014, "Learning phrase representations using RNN encoder-decoder", in the variant of `torch.nn.GRU`; dropout:
    Zaremba et al. 2014, "Recurrent neural network regularization".
    """

    def __init__(
        self, cell: str, input_width: int, width: int, num_layers: int, dropout: float, *, bidirectional: bool = False
    ) -> None:
        """Build the layers; with `bidirectional`, each direction has half of `width`."""
        super().__init__()
        self.num_layers, self.dropout, self.bidirectional = num_layers, dropout, bidirectional
        self.cells = (nn.LSTM if cell == "lstm" else nn.GRU)(
            input_width,
            width // 2 if bidirectional else width,
            num_layers,
            batch_first=True,
            dropout=dropout if num_layers > 1 else 0.0,
            bidirectional=bidirectional,
        )

    def forward(
        self, x: Tensor, hidden: Hidden | None = None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, Hidden]:
        """Return the outputs of the last layer, and every layer's state after the last token that is not padding.

        The state of the backward direction is the state after the first token.

        Args:
            x: (batch, time, input width).
            hidden: the states before the first token; None = zeros.
            attention_mask: (batch, time), True = a token, False = padding at the end; None = no padding. With a
                mask on a GPU, the CPU waits until the GPU has computed the lengths of the sequences.

        Returns:
            (batch, time, width), zeros at padding; and the states.
        """
        if x.device.type == "cpu":
            # Use float32, because torch lacks cells in half precision for some processors.
            dtype = next(self.cells.parameters()).dtype
            with torch.autocast("cpu", enabled=False):
                return self._over(x.to(dtype), hidden and tuple(part.to(dtype) for part in hidden), attention_mask)
        return self._over(x, hidden, attention_mask)

    def _over(self, x: Tensor, hidden: Hidden | None, attention_mask: Tensor | None) -> tuple[Tensor, Hidden]:
        first = None if hidden is None else hidden if isinstance(self.cells, nn.LSTM) else hidden[0]
        if attention_mask is None:
            outputs, last = self.cells(x, first)
        else:
            packed = pack_padded_sequence(x, attention_mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
            packed, last = self.cells(packed, first)
            outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        states = last if isinstance(last, tuple) else (last,)
        return outputs, tuple(self._joined(state) for state in states)

    def step(self, x: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        """Return the output of the last layer for one token (batch, input width), and the new state of every layer."""
        steps = []
        for place in range(self.num_layers):
            weights, new = self._weights(place), tuple(part[place] for part in hidden)
            new = torch.lstm_cell(x, new, *weights) if len(new) > 1 else (torch.gru_cell(x, *new, *weights),)
            steps.append(new)
            x = new[0]
            if place + 1 < self.num_layers:
                x = functional.dropout(x, self.dropout, self.training)
        return x, tuple(torch.stack(parts) for parts in zip(*steps, strict=True))

    def matrices(self) -> Iterator[Matrix]:
        """Yield the matrices that map the input to the gates, and those that map the previous state to the gates."""
        for name, weight in self.cells.named_parameters():
            if name.startswith("weight"):
                width = self.cells.hidden_size
                yield Matrix(weight, (width,) * (len(weight) // width))

    def _weights(self, place: int) -> tuple[Tensor, ...]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return tuple(getattr(self.cells, f"{name}_l{place}") for name in names)

    def _joined(self, state: Tensor) -> Tensor:
        """Join both directions of a state: (layers * 2, batch, width / 2) -> (layers, batch, width)."""
        if not self.bidirectional:
            return state
        return torch.cat([state[0::2], state[1::2]], dim=-1)
