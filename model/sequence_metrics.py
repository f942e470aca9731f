"""How good predicted sequences are, measured against references."""

from collections.abc import Sequence

import sacrebleu


def exact_match(predicted: Sequence[str], reference: Sequence[str]) -> float:
    """Share of predictions that equal their reference, 0 .. 1; higher is better. 1 - it is g2p's word error rate."""
    return sum(a == b for a, b in zip(predicted, reference, strict=True)) / len(reference)


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Fewest insertions, deletions and substitutions between two token lists. Source: Levenshtein 1966."""
    previous = list(range(len(other) + 1))
    for row, token in enumerate(one, start=1):
        current = [row]
        for column, expected in enumerate(other, start=1):
            substituted = previous[column - 1] + (token != expected)
            current.append(min(substituted, previous[column] + 1, current[-1] + 1))
        previous = current
    return previous[-1]


def token_error_rate(predicted: Sequence[Sequence[str]], reference: Sequence[Sequence[str]]) -> float:
    """Edit distance over all pairs, per reference token, 0 and up; lower is better."""
    pairs = zip(predicted, reference, strict=True)
    return sum(edit_distance(a, b) for a, b in pairs) / max(sum(map(len, reference)), 1)


def bleu(predicted: Sequence[str], reference: Sequence[str]) -> float:
    """sacrebleu's corpus BLEU, 0 .. 100, higher is better; `#:1|c:mixed|e:no|tok:13a|s:exp` and the version.

    Source: Post 2018, "A call for clarity in reporting BLEU scores".
    """
    return float(sacrebleu.corpus_bleu(list(predicted), [list(reference)]).score)


def chrf(predicted: Sequence[str], reference: Sequence[str]) -> float:
    """sacrebleu's chrF2, 0 .. 100, higher is better; `#:1|c:mixed|e:yes|nc:6|nw:0|s:no`. Source: Popović 2015."""
    return float(sacrebleu.corpus_chrf(list(predicted), [list(reference)]).score)
