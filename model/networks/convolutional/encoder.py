"""The convolutional encoder."""

from collections.abc import Sequence

from torch import Tensor, nn

from model.config.networks.convolutional import ConvolutionalConfig
from model.networks.bodies import Source, StoresWeights
from model.networks.convolutional.block import HALF, Block, build_map, matrices_of_maps
from model.networks.roles import Matrix


class ConvolutionalEncoder(nn.Module):
    """Blocks with residual connections, between two linear maps: from the embeddings to the filters, and back."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.width = config.d_model
        self.enter = build_map(config, config.d_model, config.filters, dropout=config.dropout)
        self.blocks = nn.ModuleList(Block(config, causal=False) for _ in range(config.num_layers))
        self.leave = build_map(config, config.filters, config.d_model)

    def forward(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return every token's representation; see `EncoderBody`."""
        inner = self.enter(x)
        for block in self.blocks:
            inner = (inner + block(inner, attention_mask)) * HALF
        return self.leave(inner)

    def read(self, x: Tensor, attention_mask: Tensor | None) -> Source:
        """Return the `Source` for a decoder: the encoded sequence, its mask, and the embeddings of its tokens."""
        return Source(self(x, attention_mask), attention_mask, (x,))

    def attentions(self) -> Sequence[StoresWeights]:
        """Return an empty list, because there is no attention."""
        return []

    def matrices(self) -> list[Matrix]:
        """Return the weight matrices of all linear maps."""
        return matrices_of_maps(self)
