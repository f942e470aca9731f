"""Attention of a recurrent decoder to a source."""

import torch
from torch import Tensor, nn

from model.networks.roles import LinearHead, Matrix


class Attention(nn.Module):
    """Scores each source token against a state of the decoder, and returns the weighted mean of the encoder's outputs.

    For the decoder's state s and a source token's output h, the score is:

    - `dot`: s h;
    - `bilinear`: s W h (called general in Luong et al. 2015, "Effective approaches to attention-based neural machine
      translation", section 3.1);
    - `mlp`: v tanh(W s + U h) (Bahdanau et al. 2015, "Neural machine translation by jointly learning to align and
      translate", section A.1.2).
    """

    def __init__(self, score_function: str, width: int, attention_width: int) -> None:
        super().__init__()
        is_mlp = score_function == "mlp"
        self.of_key = (
            None if score_function == "dot" else nn.Linear(width, attention_width if is_mlp else width, bias=is_mlp)
        )
        self.of_query = nn.Linear(width, attention_width, bias=False) if is_mlp else None
        self.score = LinearHead(attention_width, 1, bias=False) if is_mlp else None
        # None = do not store weights; see model.attention_maps.
        self.stored_weights: list[Tensor] | None = None

    def project_keys(self, outputs: Tensor) -> Tensor:
        """Return the keys of source tokens, shape (sources, source time, key width); decoding does not change keys."""
        return outputs if self.of_key is None else self.of_key(outputs)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Return the context (the weighted mean of the values) for each state.

        Args:
            query: (rows, time, width), states of the decoder; consecutive rows may share a source.
            keys: the result of `project_keys`.
            values: (sources, source time, width), the outputs of the encoder.
            mask: (sources, source time), True = a token, False = padding; None = no padding.

        Returns:
            (rows, time, width).
        """
        queries = query.reshape(len(keys), -1, query.shape[2])
        if self.of_query is None or self.score is None:
            scores = queries @ keys.transpose(1, 2)
        else:
            scores = self.score(torch.tanh(self.of_query(queries).unsqueeze(2) + keys.unsqueeze(1))).squeeze(-1)
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), -torch.inf)
        weights = scores.softmax(dim=-1)
        if self.stored_weights is not None:
            self.stored_weights.append(weights.unsqueeze(1))
        return (weights @ values).view_as(query)

    def matrices(self) -> list[Matrix]:
        """Return the matrices that compute keys and queries."""
        return [Matrix(m.weight, (len(m.weight),)) for m in (self.of_key, self.of_query) if m is not None]
