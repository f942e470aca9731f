"""Computes the number of bits needed to identify a token outside of the vocabulary."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from model.data.tokens.vocabulary import Vocabulary

# The number of Unicode's scalar values: all code points except surrogates (The Unicode Standard, definition D76).
_NUM_CHARACTERS = 0x110000 - 0x800
# The mark that ends a spelled token; the empty text is no character, so the mark differs from every character.
_END = ""


@dataclass(frozen=True)
class SeenOrNew:
    """The probabilities of symbols, estimated from counts; all new symbols share one escape probability.

    Let N be the sum of all counts, and T the number of different symbols. A symbol with the count c has the
    probability c / (N + T). All new symbols together have the escape probability T / (N + T), or 1 if N is 0.

    Source: Witten & Bell 1991, "The zero-frequency problem", IEEE Transactions on Information Theory 37 (4), method C.
    """

    counts: Mapping[str, int]

    @cached_property
    def _total(self) -> int:
        return sum(self.counts.values()) + len(self.counts)

    def bits(self, symbol: str) -> float | None:
        """Return the negative base-2 logarithm of a symbol's probability; None if the symbol is not in `counts`."""
        count = self.counts.get(symbol)
        return None if count is None else math.log2(self._total / count)

    @property
    def escape_bits(self) -> float:
        """The number of bits that announce a new symbol: the negative base-2 logarithm of the escape probability."""
        return math.log2(self._total / len(self.counts)) if self.counts else 0.0


@dataclass(frozen=True)
class UnknownTokens:
    """The probabilities of tokens outside of a vocabulary, estimated from the training split only.

    If an unknown token occurs in the training split, its probability comes from its count there. Any other unknown
    token is coded as an escape (see `SeenOrNew`), followed by a spelling:

    - If tokens are characters, the spelling is the token itself. All Unicode characters are equally probable.
    - If tokens are words, the token is spelled character by character up to an end mark. The probability of a character
      comes from the character's count in the distinct tokens of the training split. Each distinct token counts once.
      For a new character, all Unicode characters are equally probable.

    The probabilities of all unknown tokens sum to at most 1. So the network's predictions together with the bits of
    unknown tokens are a valid code for the text, whatever the vocabulary.

    Attributes:
        left_out: the counts of the tokens of the training split that are outside of the vocabulary.
        letters: the counts of characters and end marks in the distinct tokens of the training split. Each distinct
            token counts once. None if tokens are characters.
    """

    left_out: Mapping[str, int]
    letters: Mapping[str, int] | None

    @classmethod
    def learn(cls, texts: Iterable[str], vocabulary: Vocabulary) -> Self:
        """Return the probabilities of tokens outside of `vocabulary`, estimated from `texts` of the training split."""
        counts = Counter(token for text in texts for token in vocabulary.split(text))
        left_out = {token: count for token, count in counts.items() if token not in vocabulary.numbers}
        if vocabulary.unit == "characters":
            return cls(left_out, None)
        return cls(left_out, Counter(letter for token in counts for letter in (*token, _END)))

    def bits(self, token: str) -> float:
        """Return the number of bits needed to identify an unknown token.

        The number is the negative base-2 logarithm of the token's probability.
        """
        bits = self._tokens.bits(token)
        return self._tokens.escape_bits + self._spelled_bits(token) if bits is None else bits

    @cached_property
    def _tokens(self) -> SeenOrNew:
        return SeenOrNew(self.left_out)

    @cached_property
    def _letters(self) -> SeenOrNew:
        return SeenOrNew(self.letters or {})

    def _spelled_bits(self, token: str) -> float:
        of_any = math.log2(_NUM_CHARACTERS)
        if self.letters is None:
            return of_any
        by_letter = (self._letters.bits(letter) for letter in (*token, _END))
        return sum(self._letters.escape_bits + of_any if bits is None else bits for bits in by_letter)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as a JSON-able dict; `from_dict` is the inverse."""
        return {"left_out": dict(self.left_out), "letters": None if self.letters is None else dict(self.letters)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build `UnknownTokens` from a dict that `to_dict` returned."""
        return cls(values["left_out"], values["letters"])
