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

    All prompts are read in parallel from their first token. At the same position, a longer prompt may still have its
    own tokens while a shorter one has drawn ones. So there is no padding on the left, and a continuation does not
    depend on the other prompts of its batch.

    Args:
        network: the network, in evaluation mode.
        prompts: the token numbers of each prompt, at least one.
        draws: (prompts, max_tokens), uniform in 0 .. 1, the random numbers of the drawn tokens; on the network's
            device, so that the CPU waits only for the last token.
        context: the context of the training; the network reads at most so many of the last tokens.
        settings: the settings of sampling, with `max_tokens` per prompt.

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
        else:  # the context moves on, which changes the position of every token
            logits = network(tokens[:, place - context : place])[:, -1]
        drawn_before = place - lengths
        draw = draws.gather(1, drawn_before.clamp(0, settings.max_tokens - 1).unsqueeze(1))[:, 0]
        drawn = draw_token(logits.float(), draw, settings)
        tokens[:, place] = torch.where(drawn_before >= 0, drawn, tokens[:, place])
    return [row[n : n + settings.max_tokens] for row, n in zip(tokens.tolist(), sizes, strict=True)]


def draw_token(logits: Tensor, draw: Tensor, settings: Sampling) -> Tensor:
    """Return one token per row, (batch,), by inversion of the cumulative probabilities; never a special token.

    `logits` are (batch, vocabulary), and `draw` (batch,) is uniform in 0 .. 1.
    """
    logits = logits.index_fill(-1, torch.arange(len(SPECIAL), device=logits.device), -torch.inf)
    if settings.temperature == 0:
        return logits.argmax(dim=-1)
    # Shift the largest logit to 0, because a tiny temperature would make it infinite.
    scaled = (logits - logits.max(dim=-1, keepdim=True).values).double() / settings.temperature
    chance, token = scaled.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    if settings.top_k is not None:
        chance[:, settings.top_k :] = 0
    if settings.top_p is not None:
        chance = chance / chance.sum(dim=-1, keepdim=True)
        # A token is kept if the sum before it is below p: so the token that reaches p is kept, and there is always one.
        chance = chance.masked_fill(chance.cumsum(dim=-1) - chance >= settings.top_p, 0.0)
    reached = chance.cumsum(dim=-1)
    place = (reached <= draw.unsqueeze(1) * reached[:, -1:]).sum(dim=-1)
    # Rounding could select a place after the last token that may be drawn.
    place = torch.minimum(place, (chance > 0).sum(dim=-1) - 1)
    return token.gather(1, place.unsqueeze(1))[:, 0]


def uniform_draws(seed: int, number: int, max_tokens: int) -> Tensor:
    """Return (max_tokens,) draws in 0 .. 1 for input `number`.

    Raising `max_tokens` only appends draws, and other inputs do not change them.
    """
    return torch.from_numpy(np.random.default_rng((seed, number)).random(max_tokens))
