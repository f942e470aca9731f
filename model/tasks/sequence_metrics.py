"""Metrics that compare predicted sequences with references."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from model.config.whole import Config
from model.data.tokens.tokens import join_tokens, split_reference
from model.tasks.by_example import ByExample, Rows

_ORDER = 4  # the longest n-grams of BLEU


class Texts(NamedTuple):
    """Predictions and references in the forms that metrics compare, one item per example.

    Attributes:
        predicted_tokens, reference_tokens: the tokens that exact_match and token_error_rate compare.
        predicted, reference: the joined tokens that chrf compares.
        of_bleu: the references that bleu compares with `predicted`.
    """

    predicted_tokens: Sequence[Sequence[str]]
    reference_tokens: Sequence[Sequence[str]]
    predicted: Sequence[str]
    reference: Sequence[str]
    of_bleu: Sequence[str]


@dataclass(frozen=True)
class TextMetrics:
    """Compares predictions (the decoded targets) with references (the target texts in the data files).

    A reference is first split into tokens and joined again, because a decoded text consists of joined tokens. If the
    tokens are words and BLEU has a tokenizer, BLEU skips this step. Predictions and references are normalized to
    Unicode's form NFC. With `lowercase`, they are also lower-cased. White space is compared only if the tokens are
    characters; otherwise, it only separates words.

    Attributes:
        unit: the kind of tokens. For subwords, exact_match and token_error_rate compare the words between blanks;
            for any other kind, they compare the tokens.
        tokenize: sacrebleu's name for the tokenizer of BLEU; None = use the tokens of `unit`.
        lowercase: whether all metrics ignore letter case.
    """

    unit: str
    tokenize: str | None
    lowercase: bool

    @classmethod
    def of(cls, config: Config[Any, Any]) -> "TextMetrics":
        """Return the metrics for a configuration.

        With metrics.bleu_tokenize=auto, BLEU uses 13a, sacrebleu's default tokenizer, unless the tokens are words. If
        the tokens are words, BLEU compares these words without a tokenizer. The reason is that 13a would split decoded
        texts and references differently, because only decoded texts have blanks around punctuation.
        """
        data, metrics = config.data, config.metrics
        unit = data.target_tokens or data.tokens
        automatic = None if unit == "words" else "13a"
        tokenize = automatic if metrics.bleu_tokenize == "auto" else metrics.bleu_tokenize
        return cls(unit, tokenize, data.lowercase if metrics.lowercase is None else metrics.lowercase)

    def prepare(self, predicted: Sequence[str], reference: Sequence[str], normalize: Callable[[str], str]) -> "Texts":
        """Return the texts in the forms that the metrics compare.

        Args:
            predicted: the decoded texts.
            reference: the reference texts as they are in the files.
            normalize: brings a reference text into the form of the decoded texts.
        """
        reference = [normalize(text) for text in reference]
        # Split references as inputs are split, before `_folded`, because lower-casing can turn one character into two.
        # Then join them, so that they have the form of predictions.
        rejoined = [join_tokens(split_reference(text, self.unit), self.unit) for text in reference]
        decoded_unit = "characters" if self.unit == "characters" else "blanks"
        predicted_tokens, reference_tokens = (
            [split_reference(self._folded(text), decoded_unit) for text in side] for side in (predicted, rejoined)
        )
        predicted, rejoined = (
            [join_tokens(tokens, decoded_unit) for tokens in side] for side in (predicted_tokens, reference_tokens)
        )
        is_as_in_file = self.unit == "words" and self.tokenize is not None
        of_bleu = [self._folded(text) for text in reference] if is_as_in_file else rejoined
        return Texts(predicted_tokens, reference_tokens, predicted, rejoined, of_bleu)

    def compare(self, texts: "Texts") -> dict[str, float]:
        """Return exact_match, token_error_rate, bleu and chrf."""
        return {
            "exact_match": exact_match(texts.predicted_tokens, texts.reference_tokens),
            "token_error_rate": token_error_rate(texts.predicted_tokens, texts.reference_tokens),
            "bleu": bleu(texts.predicted, texts.of_bleu, self.tokenize or "none", self.lowercase),
            "chrf": chrf(texts.predicted, texts.reference, self.lowercase),
        }

    def by_example(self, texts: "Texts") -> dict[str, ByExample | str]:
        """Return each example's contribution to exact_match, token_error_rate and bleu; see `Task.by_example`."""
        pairs = list(zip(texts.predicted_tokens, texts.reference_tokens, strict=True))
        exact = [(a == b, 1) for a, b in pairs]
        errors = [(edit_distance(a, b), len(b)) for a, b in pairs]
        counts = bleu_counts(texts.predicted, texts.of_bleu, self.tokenize or "none", self.lowercase)
        return {
            "exact_match": ByExample(np.array(exact, dtype=np.float64)),
            "token_error_rate": ByExample(np.array(errors, dtype=np.float64)),
            "bleu": ByExample(counts, bleu_of_counts),
            "chrf": "sacrebleu counts the n-grams of chrF only for all examples together",
        }

    def _folded(self, text: str) -> str:
        text = unicodedata.normalize("NFC", text)
        # Convert each letter separately. Otherwise a final sigma would differ from a sigma within a word, and the
        # result would depend on where the text is split.
        return "".join(map(str.lower, text)) if self.lowercase else text

    def definitions(self) -> dict[str, str]:
        """Return the definition of each metric; the definitions of bleu and chrf include sacrebleu's signatures."""
        case = ", letter case ignored" if self.lowercase else ""
        unit = {"words": "words", "characters": "characters"}.get(self.unit, "words between blanks")
        own = "" if self.tokenize else "; on the tokens of data.tokens=words, so not comparable with published BLEU"
        signed = signatures(self.tokenize or "none", self.lowercase)
        return {
            "exact_match": f"share of predictions with the same {unit} as the reference{case}, 0 to 1",
            "token_error_rate": f"sum of edit distances{case}, divided by the number of reference {unit}, 0 and up",
            "bleu": f"sacrebleu, 0 to 100, {signed['bleu']}{own}",
            "chrf": f"sacrebleu, 0 to 100, {signed['chrf']}",
        }


def exact_match(predicted: Sequence[object], reference: Sequence[object]) -> float:
    """Return the share of predictions that equal their reference, 0 .. 1; higher is better.

    In grapheme-to-phoneme conversion, 1 - exact_match is called the word error rate.
    """
    return sum(a == b for a, b in zip(predicted, reference, strict=True)) / len(reference)


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the smallest number of edits (insert, delete, substitute) between two token lists (Levenshtein 1966)."""
    previous = list(range(len(other) + 1))
    for row, token in enumerate(one, start=1):
        current = [row]
        for column, expected in enumerate(other, start=1):
            substituted = previous[column - 1] + (token != expected)
            current.append(min(substituted, previous[column] + 1, current[-1] + 1))
        previous = current
    return previous[-1]


def token_error_rate(predicted: Sequence[Sequence[str]], reference: Sequence[Sequence[str]]) -> float:
    """Return the sum of all edit distances, divided by the number of reference tokens; 0 or more, lower is better."""
    pairs = zip(predicted, reference, strict=True)
    return sum(edit_distance(a, b) for a, b in pairs) / max(sum(map(len, reference)), 1)


def bleu(predicted: Sequence[str], reference: Sequence[str], tokenize: str = "13a", lowercase: bool = False) -> float:
    """Return sacrebleu's corpus BLEU, 0 .. 100, higher is better; see `signatures`.

    `tokenize` is the name of a tokenizer of sacrebleu; `none` splits at white space, for tokens joined by blanks.
    Source: Papineni et al. 2002; Post 2018, "A call for clarity in reporting BLEU scores".
    """
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)  # do not warn about texts that are already split
    return float(metric.corpus_score(list(predicted), [list(reference)]).score)


def bleu_counts(
    predicted: Sequence[str], reference: Sequence[str], tokenize: str = "13a", lowercase: bool = False
) -> Rows:
    """Return ten counts for each example: (examples, 10). `bleu_of_counts` computes BLEU from the sums of the columns.

    Columns 0 to 3 count the correct n-grams for n = 1 to 4. Columns 4 to 7 count all n-grams of the prediction, for the
    same n. The last two columns count the tokens of the prediction and of the reference.
    """
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    scores = [metric.corpus_score([text], [[other]]) for text, other in zip(predicted, reference, strict=True)]
    rows = [[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores]
    return np.array(rows, dtype=np.float64)


def bleu_of_counts(counts: Rows) -> Rows:
    """Return the corpus BLEU (0 .. 100) of several samples of the examples, shape (samples,).

    `counts` (samples, 10) holds the columns of `bleu_counts`, summed over the examples of each sample.
    """
    smooth = BLEU().smooth_method
    scores = (
        BLEU.compute_bleu(row[:_ORDER], row[_ORDER:-2], row[-2], row[-1], smooth).score
        for row in counts.astype(int).tolist()
    )
    return np.fromiter(scores, dtype=np.float64)


def chrf(predicted: Sequence[str], reference: Sequence[str], lowercase: bool = False) -> float:
    """Return sacrebleu's chrF2, 0 .. 100, higher is better; see `signatures`. Source: Popović 2015."""
    return float(CHRF(lowercase=lowercase).corpus_score(list(predicted), [list(reference)]).score)


def signatures(tokenize: str = "13a", lowercase: bool = False) -> dict[str, str]:
    """Return sacrebleu's signatures, such as `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0`."""
    named = {}
    metrics = {"bleu": BLEU(tokenize=tokenize, lowercase=lowercase), "chrf": CHRF(lowercase=lowercase)}
    for name, metric in metrics.items():
        metric.corpus_score(["."], [["."]])  # the signature needs a score first, for the number of references
        named[name] = str(metric.get_signature())
    return named
