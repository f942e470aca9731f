"""The position-wise feed-forward network, its nonlinearities, and the norms."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from model.networks.roles import Matrix

NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "tanh": functional.tanh,
    "silu": functional.silu,
    "swiglu": functional.silu,
}


class FeedForward(nn.Module):
    """Two linear layers with a nonlinearity between them, applied to each position separately.

    With `swiglu`, there is a third layer V, the gate. With W as the first layer, the last layer reads
    silu(x V) * (x W).

    Source: Vaswani et al. 2017, section 3.3; Shazeer 2020, "GLU variants improve Transformer", equation 6.
    """

    def __init__(self, d_model: int, width: int, nonlinearity: str, dropout: float, bias: bool) -> None:
        super().__init__()
        self.nonlinearity = NONLINEARITIES[nonlinearity]
        self.gate = nn.Linear(d_model, width, bias=bias) if nonlinearity == "swiglu" else None
        self.inner = nn.Linear(d_model, width, bias=bias)
        self.outer = nn.Linear(width, d_model, bias=bias)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return the transformed `x`: (batch, time, d_model) -> the same shape."""
        inner = self.inner(x)
        inner = self.nonlinearity(inner) if self.gate is None else self.nonlinearity(self.gate(x)) * inner
        return self.outer(functional.dropout(inner, self.dropout, self.training))

    def matrices(self) -> list[Matrix]:
        """Return the weight matrices of all layers."""
        layers = (self.inner, self.outer) if self.gate is None else (self.gate, self.inner, self.outer)
        return [Matrix(layer.weight, (len(layer.weight),)) for layer in layers]


def build_norm(name: str, d_model: int, bias: bool) -> nn.Module:
    """Return the norm: `layer` (Ba, Kiros, Hinton 2016) or `rms`, which has no bias (Zhang, Sennrich 2019)."""
    if name == "rms":
        return nn.RMSNorm(d_model, eps=1e-5)
    return nn.LayerNorm(d_model, eps=1e-5, bias=bias)
