"""The weights before the first step."""

import torch
from torch import nn


@torch.no_grad()
def initialise(network: nn.Module) -> None:
    """Draws every weight of `network` anew, from torch's random numbers (the caller seeds them).

    | parameter                    | initial distribution                                         |
    |------------------------------|--------------------------------------------------------------|
    | linear weight (out, in)      | uniform on +-sqrt(6 / (in + out)) (Glorot, Bengio 2010)      |
    | linear bias                  | 0                                                            |
    | token embedding (n, d)       | normal, standard deviation 1 / sqrt(d); scaled by sqrt(d)    |
    |                              | when read (Vaswani et al. 2017, section 3.4), so that        |
    |                              | tokens and sinusoidal positions have numbers of like size    |
    | learned position (n, d)      | normal, standard deviation 0.02 (Radford et al. 2018)        |
    | norm weight / bias           | 1 / 0                                                        |
    """
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, nn.Embedding):
            is_position = name.endswith("positions.embedding")
            nn.init.normal_(module.weight, std=0.02 if is_position else module.embedding_dim**-0.5)
