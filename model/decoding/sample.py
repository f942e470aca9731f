"""Samples the continuation of a text from a language model."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from model.data.tokens.vocabulary import SPECIAL
from model.decoding.sampling import Sampling
from model.networks.language_model import LanguageModel


@torch.no_grad()
def sample(
    network: LanguageModel, prompts: Sequence[Sequence[int]], draws: Tensor, context: int, settings: Sampling
) -> list[list[int]]:
    """Return the continuation of each prompt.

    The network reads all prompts in parallel, each from its first token. After the end of a short prompt, the network
    reads the tokens drawn for this prompt, while it still reads the texts of longer prompts. So prompts need no padding
    on the left, and a continuation does not depend on the other prompts of the batch.

    Args:
        network: the network, in evaluation mode.
        prompts: the token numbers of each prompt, at least one number per prompt.
        draws: (prompts, max_tokens), the random numbers for drawing tokens, uniform between 0 and 1. `draws` must be on
            the network's device, so that the CPU waits only once, at the end.
        context: the number of tokens in a training context. To predict a token, the network reads at most this many
            tokens before it.
        settings: the settings of sampling.

    Returns:
        `max_tokens` token numbers per prompt, without the prompt.
    """
    sizes = [len(prompt) for prompt in prompts]
    read, end = min(sizes), max(sizes) + settings.max_tokens
    tokens = torch.tensor([[*prompt, *[0] * (end - len(prompt))] for prompt in prompts], device=draws.device)
    lengths = torch.tensor(sizes, device=draws.device)
    state, num_read = network.begin(), 0
    for place in range(read, end):
        if place <= context:
            logits = network.advance(tokens[:, num_read:place], state)[:, -1]
            num_read = place
        else:  # the context moves by one token, so every token has a new position, and the state cannot be used
            logits = network(tokens[:, place - context : place])[:, -1]
        drawn_before = place - lengths
        draw = draws.gather(1, drawn_before.clamp(0, settings.max_tokens - 1).unsqueeze(1))[:, 0]
        drawn = draw_token(logits.float(), draw, settings)
        tokens[:, place] = torch.where(drawn_before >= 0, drawn, tokens[:, place])
    return [row[n : n + settings.max_tokens] for row, n in zip(tokens.tolist(), sizes, strict=True)]


def draw_token(logits: Tensor, draw: Tensor, settings: Sampling) -> Tensor:
    """Draw one token per row, (batch,), by inverting the cumulative probabilities; never draw a special token.

    `logits` is (batch, vocabulary), and `draw` (batch,) is uniform between 0 and 1.
    """
    logits = logits.index_fill(-1, torch.arange(len(SPECIAL), device=logits.device), -torch.inf)
    if settings.temperature == 0:
        return logits.argmax(dim=-1)
    # Shift the largest logit to 0, because dividing it by a tiny temperature could make it infinite.
    scaled = (logits - logits.max(dim=-1, keepdim=True).values).double() / settings.temperature
    chance, token = scaled.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    if settings.top_k is not None:
        chance[:, settings.top_k :] = 0
    if settings.top_p is not None:
        chance = chance / chance.sum(dim=-1, keepdim=True)
        # Keep a token if the sum of the probabilities before it is below p. This keeps the token whose probability
        # reaches p, and always at least one token.
        chance = chance.masked_fill(chance.cumsum(dim=-1) - chance >= settings.top_p, 0.0)
    reached = chance.cumsum(dim=-1)
    place = (reached <= draw.unsqueeze(1) * reached[:, -1:]).sum(dim=-1)
    # Rounding could select a position after the last token that may be drawn.
    place = torch.minimum(place, (chance > 0).sum(dim=-1) - 1)
    return token.gather(1, place.unsqueeze(1))[:, 0]


def uniform_draws(seed: int, number: int, max_tokens: int) -> Tensor:
    """Return (max_tokens,) random numbers between 0 and 1 for the input with the index `number`.

    The numbers do not depend on other inputs, and a larger `max_tokens` only appends numbers.
    """
    return torch.from_numpy(np.random.default_rng((seed, number)).random(max_tokens))
