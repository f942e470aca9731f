"""The recurrent encoder."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.config.networks.recurrent import Reading, RecurrentConfig, RecurrentEncoderDecoder
from model.networks.bodies import Source, StoresWeights
from model.networks.recurrent.cells import Cells, Hidden


class RecurrentEncoder(nn.Module):
    """Recurrent cells that read a sequence from start to end.

    With `bidirectional`, the cells read in both directions (Schuster, Paliwal 1997). With `reverse_source`, they read
    from end to start: Sutskever et al. 2014, "Sequence to sequence learning with neural networks", section 3.3.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        assert isinstance(config, Reading)
        self.width, self.dropout = config.hidden_width, config.dropout
        self.reverses = isinstance(config, RecurrentEncoderDecoder) and config.reverse_source
        self.cells = Cells(
            config.cell,
            config.d_model,
            config.hidden_width,
            config.num_layers,
            config.dropout,
            bidirectional=config.bidirectional,
        )

    def forward(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return every token's representation; see `EncoderBody`."""
        return self._read(x, attention_mask)[0]

    def read(self, x: Tensor, attention_mask: Tensor | None) -> Source:
        """Return the encoded sequence for a decoder, with the states after the last token."""
        outputs, last = self._read(x, attention_mask)
        return Source(outputs, attention_mask, last)

    def attentions(self) -> Sequence[StoresWeights]:
        """Return an empty list, because there is no attention."""
        return []

    def _read(self, x: Tensor, attention_mask: Tensor | None) -> tuple[Tensor, Hidden]:
        outputs, last = self.cells(
            reverse_sequences(x, attention_mask) if self.reverses else x, attention_mask=attention_mask
        )
        outputs = reverse_sequences(outputs, attention_mask) if self.reverses else outputs
        return functional.dropout(outputs, self.dropout, self.training), last


def reverse_sequences(x: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Return sequences (batch, time, width) with their tokens in reverse order; padding stays in place."""
    if attention_mask is None:
        return x.flip(1)
    place = torch.arange(x.shape[1], device=x.device)
    from_end = attention_mask.sum(dim=1, keepdim=True) - 1 - place
    return x.gather(1, torch.where(attention_mask, from_end, place).unsqueeze(-1).expand_as(x))
