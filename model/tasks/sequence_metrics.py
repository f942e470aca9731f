"""Metrics of predicted sequences against references."""

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


def exact_match(predicted: Sequence[str], reference: Sequence[str]) -> float:
    """Return the share of predictions that equal their reference, 0 .. 1; higher is better.

    1 - it is the word error rate of grapheme-to-phoneme conversion.
    """
    return sum(a == b for a, b in zip(predicted, reference, strict=True)) / len(reference)


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the fewest insertions, deletions and substitutions between two token lists. Source: Levenshtein 1966."""
    previous = list(range(len(other) + 1))
    for row, token in enumerate(one, start=1):
        current = [row]
        for column, expected in enumerate(other, start=1):
            substituted = previous[column - 1] + (token != expected)
            current.append(min(substituted, previous[column] + 1, current[-1] + 1))
        previous = current
    return previous[-1]


def token_error_rate(predicted: Sequence[Sequence[str]], reference: Sequence[Sequence[str]]) -> float:
    """Return the edit distance over all pairs, per reference token, 0 and up; lower is better."""
    pairs = zip(predicted, reference, strict=True)
    return sum(edit_distance(a, b) for a, b in pairs) / max(sum(map(len, reference)), 1)


def bleu(predicted: Sequence[str], reference: Sequence[str]) -> float:
    """Return sacrebleu's corpus BLEU with its own tokens, 0 .. 100, higher is better; see `signatures`.

    Source: Papineni et al. 2002; Post 2018, "A call for clarity in reporting BLEU scores".
    """
    return float(BLEU().corpus_score(list(predicted), [list(reference)]).score)


def chrf(predicted: Sequence[str], reference: Sequence[str]) -> float:
    """Return sacrebleu's chrF2, 0 .. 100, higher is better; see `signatures`. Source: Popović 2015."""
    return float(CHRF().corpus_score(list(predicted), [list(reference)]).score)


def signatures() -> dict[str, str]:
    """Return what to quote with a score, such as `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0`."""
    named = {}
    for name, metric in {"bleu": BLEU(), "chrf": CHRF()}.items():
        metric.corpus_score(["."], [["."]])  # the number of references is known from the first score on
        named[name] = str(metric.get_signature())
    return named
