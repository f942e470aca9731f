"""The weights before the first step."""

import torch
from torch import nn

from model.networks.embedding import TokenHead


@torch.no_grad()
def initialise(network: nn.Module) -> None:
    """Draw every weight of `network` from torch's random numbers, which the caller seeds.

    | parameter                    | initial distribution                                         |
    |------------------------------|--------------------------------------------------------------|
    | linear weight (out, in)      | uniform on +-sqrt(6 / (in + out)) (Glorot, Bengio 2010)      |
    | linear bias                  | 0                                                            |
    | token embedding (n, d)       | normal, standard deviation 1 / sqrt(d); scaled by sqrt(d)    |
    |                              | when read (Vaswani et al. 2017, section 3.4), so that        |
    |                              | tokens and sinusoidal positions are of similar size          |
    | learned position (n, d)      | normal, standard deviation 0.02 (Radford et al. 2018)        |
    | norm weight / bias           | 1 / 0                                                        |
    | tied head                    | the token embedding, normal with 0.02 (Radford et al. 2018): |
    |                              | as a head, a larger one would predict each token itself, and |
    |                              | the first loss would be far above ln(vocabulary)             |
    """
    tied = {id(head.tied[0].tokens) for head in network.modules() if isinstance(head, TokenHead) and head.tied}
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, nn.Embedding):
            is_small = name.endswith("positions.embedding") or id(module) in tied
            nn.init.normal_(module.weight, std=0.02 if is_small else module.embedding_dim**-0.5)
