"""Greedy search and beam search for a probable target."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from model.data.tokens.vocabulary import END, PADDING, START
from model.networks.bodies import State
from model.networks.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class Decoded:
    """Targets and their scores.

    Attributes:
        tokens: (batch, time), without START. Each target ends with END, followed by PADDING; a target that is cut off
            has no END.
        scores: (batch,), the sum of log-probabilities, divided by the length penalty; higher is better.
    """

    tokens: Tensor
    scores: Tensor

    def sequences(self) -> list[list[int]]:
        """Return each target's token numbers, without END and padding."""
        return [[token for token in row if token not in (PADDING, END)] for row in self.tokens.tolist()]


def length_penalty(length: int | Tensor, strength: float) -> float | Tensor:
    """Return ((5 + length) / 6) ** strength; strength 0 = no penalty. Source: Wu et al. 2016 (GNMT), equation 14."""
    return ((5 + length) / 6) ** strength


def _greedy(network: EncoderDecoder, state: State, source: Tensor, max_length: int, penalty: float) -> Decoded:
    """Return targets made of the most likely next token at each step, up to END or `max_length` tokens."""
    device = source.device
    running = torch.arange(len(source), device=device)  # the sources whose target has not ended
    last = torch.full((len(source), 1), START, device=device)
    tokens = torch.full((len(source), max_length), PADDING, device=device)
    scores = torch.zeros(len(source), device=device)
    for place in range(max_length):
        gained, last = _chances(network, last, state).max(dim=-1, keepdim=True)
        tokens[running, place] = last[:, 0]
        scores[running] += gained[:, 0]
        # Selecting the targets that go on is the only synchronization with the device in a step.
        goes_on = (last[:, 0] != END).nonzero()[:, 0]
        if len(goes_on) == 0:
            break
        if len(goes_on) < len(running):
            running, last = running[goes_on], last[goes_on]
            state.select(goes_on, sources=goes_on)
    return Decoded(tokens, scores / length_penalty((tokens != PADDING).sum(dim=1), penalty))


@torch.no_grad()
def beam_search(
    network: EncoderDecoder,
    source: Tensor,
    source_mask: Tensor | None,
    max_length: int,
    beam_size: int,
    penalty: float,
) -> Decoded:
    """Search with `beam_size` prefixes per source, and return the best target found for each source.

    A prefix is finished when it ends with END. For each source, the search ends when `beam_size` prefixes are finished,
    or when the prefixes have `max_length` tokens. The greedy target of a source is always compared with the finished
    prefixes, because beam search may drop the greedy target although it is the best one.

    A target with END always beats a target without END. Without this rule, a target with an endless loop could win by
    its length. If no target has END, the greedy target is returned, cut off at `max_length`.

    Args:
        network: the network, in evaluation mode.
        source: (batch, source time), token numbers.
        source_mask: (batch, source time), True = a token, False = padding; None = no padding.
        max_length: the largest number of tokens in a target, including END.
        beam_size: the number of prefixes per source; 1 = greedy search.
        penalty: the strength of the length penalty. With 0, the search ranks targets by their total log-probability,
            and so prefers short targets. With 1, the search ranks targets almost by their mean log-probability per
            token.

    Source: Sutskever, Vinyals, Le 2014, section 3.2; Wu et al. 2016, section 7.
    """
    state = network.begin(source, source_mask)
    if beam_size == 1:
        return _greedy(network, state, source, max_length, penalty)
    best = _greedy(network, state.initial(), source, max_length, penalty)
    has_ended = (best.tokens == END).any(dim=1)
    best_scores, best_tokens = best.scores.masked_fill(~has_ended, -torch.inf), best.tokens.clone()

    batch, device = len(source), source.device
    running = torch.arange(batch, device=device)  # the sources that are not finished
    num_finished = torch.zeros(batch, dtype=torch.long, device=device)
    beams = torch.full((batch, beam_size, 0), PADDING, device=device)
    scores = torch.full((batch, beam_size), -torch.inf, device=device)
    scores[:, 0] = 0.0  # all beams are equal at first, so only one may be extended
    last = torch.full((batch * beam_size, 1), START, device=device)

    for length in range(1, max_length + 1):
        gained = _chances(network, last, state)
        size = gained.shape[-1]
        total = (scores.unsqueeze(-1) + gained.view(len(running), beam_size, size)).flatten(1)
        # Twice as many candidates as beams, so that enough remain even if all beams take END.
        candidate, place = total.topk(min(2 * beam_size, total.shape[1]), dim=1)
        parent, token = place // size, place % size
        longer = torch.cat([beams.gather(1, parent.unsqueeze(-1).expand(-1, -1, length - 1)), token.unsqueeze(-1)], -1)

        is_end = (token == END) & candidate.isfinite()
        normalised = (candidate / length_penalty(length, penalty)).masked_fill(~is_end, -torch.inf)
        score, which = normalised[:, :beam_size].max(dim=1)
        ended = longer.gather(1, which[:, None, None].expand(-1, 1, length))[:, 0]
        before, tokens_before = best_scores[running], best_tokens[running]
        better = score > before
        best_scores[running] = torch.where(better, score, before)
        best_tokens[running] = torch.where(
            better.unsqueeze(1), functional.pad(ended, (0, max_length - length), value=PADDING), tokens_before
        )
        num_finished = num_finished + is_end[:, :beam_size].sum(dim=1)

        scores, selected = candidate.masked_fill(is_end, -torch.inf).topk(beam_size, dim=1)
        beams = longer.gather(1, selected.unsqueeze(-1).expand(-1, -1, length))
        rows = torch.arange(len(running), device=device).unsqueeze(1) * beam_size + parent.gather(1, selected)
        # Selecting the sources that go on is the only synchronization with the device in a step.
        goes_on = (num_finished < beam_size).nonzero()[:, 0]
        if len(goes_on) == 0:
            break
        if len(goes_on) < len(running):
            running, num_finished, scores = running[goes_on], num_finished[goes_on], scores[goes_on]
            beams, rows = beams[goes_on], rows[goes_on]
            state.select(rows.flatten(), sources=goes_on)
        else:
            state.select(rows.flatten())
        last = beams[:, :, -1].reshape(-1, 1)
    return Decoded(best_tokens, torch.where(best_scores.isfinite(), best_scores, best.scores))


def _chances(network: EncoderDecoder, last: Tensor, state: State) -> Tensor:
    """Return the log-probabilities of each row's next token, (rows, vocabulary); PADDING and START are impossible."""
    chances = network.advance(last, state)[:, -1].float().log_softmax(dim=-1)
    chances[:, PADDING] = chances[:, START] = -torch.inf
    return chances
