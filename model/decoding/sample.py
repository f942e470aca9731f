"""Sampling a text's continuation from a language model."""

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

    All prompts are read in parallel from their first token; where a longer prompt still has its own tokens, a shorter
    one already has drawn ones. So nothing is padded on the left, and a continuation does not depend on the other
    prompts of its batch.

    Args:
        network: in evaluation mode.
        prompts: token numbers, one or more each.
        draws: (prompts, max_tokens), uniform in 0 .. 1: the randomness of each drawn token; on the network's device,
            for which nothing waits before the last token.
        context: tokens that the network was trained to see; it sees at most this many last tokens.
        settings: `max_tokens` per prompt.

    Returns:
        `max_tokens` token numbers per prompt, without the prompt.
    """
    sizes = [len(prompt) for prompt in prompts]
    read, end = min(sizes), max(sizes) + settings.max_tokens
    tokens = torch.tensor([[*prompt, *[0] * (end - len(prompt))] for prompt in prompts], device=draws.device)
    lengths = torch.tensor(sizes, device=draws.device)
    state, seen = network.begin(), 0
    for place in range(read, end):
        if place <= context:
            logits = network.advance(tokens[:, seen:place], state)[:, -1]
            seen = place
        else:  # the first tokens leave the context, which changes every other token's position
            logits = network(tokens[:, place - context : place])[:, -1]
        drawn_before = place - lengths
        draw = draws.gather(1, drawn_before.clamp(0, settings.max_tokens - 1).unsqueeze(1))[:, 0]
        drawn = draw_token(logits.float(), draw, settings)
        tokens[:, place] = torch.where(drawn_before >= 0, drawn, tokens[:, place])
    return [row[n : n + settings.max_tokens] for row, n in zip(tokens.tolist(), sizes, strict=True)]


def draw_token(logits: Tensor, draw: Tensor, settings: Sampling) -> Tensor:
    """Return one token per row, (batch,), by inverting the cumulative probabilities; never a special token.

    `logits`: (batch, vocabulary); `draw`: (batch,), uniform in 0 .. 1.
    """
    logits = logits.index_fill(-1, torch.arange(len(SPECIAL), device=logits.device), -torch.inf)
    if settings.temperature == 0:
        return logits.argmax(dim=-1)
    # The largest logit becomes 0 first: a tiny temperature would make it infinite otherwise.
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
