"""Greedy and beam search for a target that the network finds probable."""

from dataclasses import dataclass

import torch
from torch import Tensor

from model.data.tokens.vocabulary import END, PADDING, START
from model.networks.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class Decoded:
    """Targets and their scores.

    Attributes:
        tokens: (batch, time), without start; each target's last token is followed by END, then PADDING.
        scores: (batch,), sum of log-probabilities divided by the length penalty; higher is better.
    """

    tokens: Tensor
    scores: Tensor

    def sequences(self) -> list[list[int]]:
        """Return each target's token numbers, without END and padding."""
        return [[token for token in row if token not in (PADDING, END)] for row in self.tokens.tolist()]


def length_penalty(length: int | Tensor, strength: float) -> float | Tensor:
    """Return ((5 + length) / 6) ** strength; strength 0 = no penalty. Source: Wu et al. 2016 (GNMT), equation 14."""
    return ((5 + length) / 6) ** strength


@torch.no_grad()
def greedy(
    network: EncoderDecoder, source: Tensor, source_real: Tensor | None, max_length: int, penalty: float = 0.0
) -> Decoded:
    """Return the targets that take the most likely next token until END or `max_length` tokens, END counted.

    Args:
        network: in evaluation mode.
        source: (batch, source time) token numbers.
        source_real: (batch, source time), True = a token; None = no padding.
        max_length: maximum of tokens in a target.
        penalty: strength of the length penalty, for the scores only.
    """
    encoded, cache = network.encode(source, source_real), network.new_cache()
    last = torch.full((len(source), 1), START, device=source.device)
    is_finished = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    scores, lengths, tokens = torch.zeros(len(source), device=source.device), torch.zeros_like(last[:, 0]), []
    for _ in range(max_length):
        logits = network.decode(last, encoded, source_real, cache)[:, -1].float()
        gained, last = _allowed(logits).max(dim=-1, keepdim=True)
        scores = torch.where(is_finished, scores, scores + gained[:, 0])
        lengths = lengths + ~is_finished
        last = last.masked_fill(is_finished.unsqueeze(1), PADDING)
        tokens.append(last)
        is_finished = is_finished | (last[:, 0] == END)
        if is_finished.all():
            break
    return Decoded(torch.cat(tokens, dim=1), scores / length_penalty(lengths, penalty))


@torch.no_grad()
def beam_search(
    network: EncoderDecoder,
    source: Tensor,
    source_real: Tensor | None,
    max_length: int,
    beam_size: int,
    penalty: float,
) -> Decoded:
    """Return the best target that a beam of `beam_size` prefixes finds; its score is never below the greedy one's.

    A prefix that takes END is finished; a source is finished with `beam_size` finished prefixes. Pruning can lose the
    greedy target, although it may be the best one, so the greedy target is also a candidate.

    Args:
        network: in evaluation mode.
        source: (batch, source time) token numbers.
        source_real: (batch, source time), True = a token; None = no padding.
        max_length: maximum of tokens in a target, END counted.
        beam_size: prefixes kept per source; 1 = greedy.
        penalty: strength of the length penalty; 0 prefers short targets, 1 is about the mean per token.

    Source: Sutskever, Vinyals, Le 2014, section 3.2; Wu et al. 2016, section 7.
    """
    best = greedy(network, source, source_real, max_length, penalty)
    if beam_size == 1:
        return best
    batch, device = len(source), source.device
    rows = torch.arange(batch, device=device)
    encoded = network.encode(source, source_real).repeat_interleave(beam_size, dim=0)
    real = None if source_real is None else source_real.repeat_interleave(beam_size, dim=0)
    cache = network.new_cache()

    best_scores = best.scores
    best_tokens = torch.full((batch, max_length), PADDING, device=device)
    best_tokens[:, : best.tokens.shape[1]] = best.tokens
    num_finished = torch.zeros(batch, dtype=torch.long, device=device)
    beams = torch.full((batch, beam_size, 0), PADDING, device=device)
    scores = torch.full((batch, beam_size), -torch.inf, device=device)
    scores[:, 0] = 0.0  # all beams are equal at first: only one may be extended
    last = torch.full((batch * beam_size, 1), START, device=device)

    for length in range(1, max_length + 1):
        gained = _allowed(network.decode(last, encoded, real, cache)[:, -1].float())
        size = gained.shape[-1]
        total = (scores.unsqueeze(-1) + gained.view(batch, beam_size, size)).flatten(1)
        # Twice as many as beams: even if all beams took END, enough others remain.
        candidate, place = total.topk(min(2 * beam_size, total.shape[1]), dim=1)
        parent, token = place // size, place % size
        longer = torch.cat([beams.gather(1, parent.unsqueeze(-1).expand(-1, -1, length - 1)), token.unsqueeze(-1)], -1)

        is_end = (token == END) & candidate.isfinite()
        normalised = (candidate / length_penalty(length, penalty)).masked_fill(~is_end, -torch.inf)
        normalised[:, beam_size:] = -torch.inf
        score, which = normalised.max(dim=1)
        better = (score > best_scores) & (num_finished < beam_size)
        best_scores = torch.where(better, score, best_scores)
        finished = torch.full_like(best_tokens, PADDING)
        finished[:, :length] = longer[rows, which]
        best_tokens = torch.where(better.unsqueeze(1), finished, best_tokens)
        num_finished = num_finished + is_end[:, :beam_size].sum(dim=1)
        if (num_finished >= beam_size).all():
            break

        scores, kept = candidate.masked_fill(is_end, -torch.inf).topk(beam_size, dim=1)
        beams = longer.gather(1, kept.unsqueeze(-1).expand(-1, -1, length))
        cache.select((rows.unsqueeze(1) * beam_size + parent.gather(1, kept)).flatten())
        last = beams[:, :, -1].reshape(-1, 1)
    return Decoded(best_tokens, best_scores)


def _allowed(logits: Tensor) -> Tensor:
    """Return (batch, vocabulary) log-probabilities; padding and start are never predicted."""
    blocked = torch.tensor([PADDING, START], device=logits.device)
    return logits.log_softmax(dim=-1).index_fill(-1, blocked, -torch.inf)
