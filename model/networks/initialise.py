"""Draws the initial weights of networks."""

import torch
from torch import nn

from model.networks.convolutional.block import Map
from model.networks.embedding import InputEmbedding, TokenHead


@torch.no_grad()
def initialise(network: nn.Module) -> None:
    """Draw every weight of `network` from torch's generator, which the caller must seed.

    In the table, d is the length of an embedding vector, and a linear weight has the shape (out, in).

    | parameter                    | initial distribution                                         |
    |------------------------------|--------------------------------------------------------------|
    | linear weight (out, in)      | uniform on +-sqrt(6 / (in + out)) (Glorot, Bengio 2010)      |
    | linear bias                  | 0                                                            |
    | Transformer: token embedding | normal, standard deviation 1 / sqrt(d). The network          |
    |                              | multiplies token vectors by sqrt(d) (Vaswani et al. 2017,    |
    |                              | section 3.4). So the numbers in token vectors and in         |
    |                              | sinusoidal position vectors are of similar size              |
    | token embedding of other     | normal, standard deviation 0.1 (Gehring et al. 2017,         |
    | families of networks         | section 3.5)                                                 |
    | token embedding, tied to the | normal, standard deviation 0.02 / head_scale (Radford et al. |
    | head, in any family          | 2018). The head uses the same weights. With larger weights,  |
    |                              | each token would predict itself, so the first loss would be  |
    |                              | far above ln(vocabulary)                                     |
    | head over tokens             | drawn as a linear weight, then divided by head_scale         |
    | Transformer: learned         | normal, standard deviation 0.02 (Radford et al. 2018)        |
    | position embedding           |                                                              |
    | norm weight / bias           | 1 / 0                                                        |
    | convolutional: position      | normal, standard deviation 0.1                               |
    | embedding                    |                                                              |
    | convolutional: map           | see `Map`; bias 0                                            |
    | recurrent cells: weights of  | the matrix of each gate is drawn as a linear weight          |
    | the input                    |                                                              |
    | recurrent cells: weights of  | the matrix of each gate is orthogonal (Saxe et al. 2014)     |
    | the previous state           |                                                              |
    | recurrent cells: biases      | 0, but 1 for an LSTM's forget gate (Jozefowicz et al. 2015)  |
    """
    inputs = [module for module in network.modules() if isinstance(module, InputEmbedding)]
    stds = {id(embedding.tokens): embedding.initial_std for embedding in inputs}
    for name, module in network.named_modules():
        if isinstance(module, Map):
            module.draw_weight()
            module.bias.zero_()
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, nn.Embedding):
            first = inputs[0]
            plain = first.position_std if name.endswith("positions.embedding") else first.initial_std
            nn.init.normal_(module.weight, std=stds.get(id(module), plain))
        elif isinstance(module, nn.RNNBase):
            _initialise_cells(module)
    for module in network.modules():
        if isinstance(module, TokenHead) and module.own is not None:
            module.own.weight /= module.scale


def _initialise_cells(cells: nn.RNNBase) -> None:
    for name, parameter in cells.named_parameters():
        for place, gate in enumerate(torch.split(parameter, cells.hidden_size)):
            if name.startswith("weight_ih"):
                nn.init.xavier_uniform_(gate)
            elif name.startswith("weight_hh"):
                nn.init.orthogonal_(gate)
            else:
                # torch adds two biases per gate, so set only one of them to 1. The order of an LSTM's gates is input,
                # forget, cell, output.
                is_forget = isinstance(cells, nn.LSTM) and place == 1 and name.startswith("bias_ih")
                gate.fill_(1.0 if is_forget else 0.0)
