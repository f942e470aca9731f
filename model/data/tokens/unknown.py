"""The bits that identify the token behind an unknown one."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from model.data.tokens.vocabulary import Vocabulary

# The number of Unicode's scalar values: all code points except surrogates (The Unicode Standard, definition D76).
_NUM_CHARACTERS = 0x110000 - 0x800
# The end mark of a spelled token; no character is the empty text.
_END = ""


@dataclass(frozen=True)
class SeenOrNew:
    """The probabilities of symbols by their counts; new symbols share the probability of an escape.

    A symbol that was seen c of N times, among T different ones, has the probability c / (N + T). All new ones together
    have T / (N + T), or 1 if no symbol was seen.

    Source: Witten & Bell 1991, "The zero-frequency problem", IEEE Transactions on Information Theory 37 (4), method C.
    """

    counts: Mapping[str, int]

    @cached_property
    def _total(self) -> int:
        return sum(self.counts.values()) + len(self.counts)

    def bits(self, symbol: str) -> float | None:
        """Return the bits of a symbol that was seen; None for a new one."""
        count = self.counts.get(symbol)
        return None if count is None else math.log2(self._total / count)

    @property
    def escape_bits(self) -> float:
        """The bits of the escape, without those that identify the new symbol."""
        return math.log2(self._total / len(self.counts)) if self.counts else 0.0


@dataclass(frozen=True)
class UnknownTokens:
    """The probability of each token outside of a vocabulary, from the training split only.

    A token that occurs in the training split gets its probability from its count. Any other token is spelled. A
    character is spelled as one of all Unicode characters. A word is spelled character by character up to an end mark,
    by the counts of characters in the different tokens of the training split; a new character is one of all Unicode
    characters. The probabilities of all tokens sum to at most 1. So a network's prediction together with these bits is
    a valid code for the text, whatever the vocabulary.

    Attributes:
        left_out: the counts of the training split's tokens outside of the vocabulary.
        letters: the counts of characters and end marks in the training split's different tokens; None if a token is a
            character.
    """

    left_out: Mapping[str, int]
    letters: Mapping[str, int] | None

    @classmethod
    def learn(cls, texts: Iterable[str], vocabulary: Vocabulary) -> Self:
        """Return the tokens outside of a vocabulary, by the `texts` of the training split."""
        counts = Counter(token for text in texts for token in vocabulary.split(text))
        left_out = {token: count for token, count in counts.items() if token not in vocabulary.numbers}
        if vocabulary.unit == "characters":
            return cls(left_out, None)
        return cls(left_out, Counter(letter for token in counts for letter in (*token, _END)))

    def bits(self, token: str) -> float:
        """Return the bits that identify an unknown token: minus the logarithm of its probability."""
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
        """Return JSON-able values that `from_dict` reads back."""
        return {"left_out": dict(self.left_out), "letters": None if self.letters is None else dict(self.letters)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the dict of `to_dict`."""
        return cls(values["left_out"], values["letters"])
