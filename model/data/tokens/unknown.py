"""Which token an unknown one stands for, and how many bits it takes to say so."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from model.data.tokens.vocabulary import Vocabulary

# Unicode's scalar values: all code points but the surrogates (The Unicode Standard, definition D76).
_NUM_CHARACTERS = 0x110000 - 0x800
# Ends a spelled token; no character is the empty text.
_END = ""


@dataclass(frozen=True)
class SeenOrNew:
    """An estimate of what comes next, by how often each symbol was seen; new symbols share an escape's probability.

    A symbol seen c of N times among T different ones has the probability c / (N + T), and all new ones together
    T / (N + T), or 1 where nothing was seen.

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
        """The bits that say that a symbol is new, and not which."""
        return math.log2(self._total / len(self.counts)) if self.counts else 0.0


@dataclass(frozen=True)
class UnknownTokens:
    """A probability for each token that a vocabulary reads as unknown, from the training part alone.

    Among the tokens of the training part that the vocabulary leaves out, by how often each is there; a token that is
    not there is spelled. A character is spelled as one of Unicode's; a word character by character up to an end mark,
    by how often each is in the different tokens of the training part, and a new character as one of Unicode's. The
    probabilities of all tokens sum to 1 at most: with these bits, what a network says of its tokens is a proper code
    for the text, whatever the vocabulary leaves out.

    Attributes:
        left_out: the number of occurrences of each token of the training part that the vocabulary leaves out.
        letters: characters and end marks of the training part's different tokens; None where a token is a character.
    """

    left_out: Mapping[str, int]
    letters: Mapping[str, int] | None

    @classmethod
    def learn(cls, texts: Iterable[str], vocabulary: Vocabulary) -> Self:
        """Return what `vocabulary` leaves out of the training part's `texts`."""
        counts = Counter(token for text in texts for token in vocabulary.split(text))
        left_out = {token: count for token, count in counts.items() if token not in vocabulary.numbers}
        if vocabulary.unit == "characters":
            return cls(left_out, None)
        return cls(left_out, Counter(letter for token in counts for letter in (*token, _END)))

    def bits(self, token: str) -> float:
        """Return the bits that say that an unknown token is this one: minus the logarithm of its probability."""
        seen = self._tokens.bits(token)
        return self._tokens.escape_bits + self._spelled_bits(token) if seen is None else seen

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
        seen = (self._letters.bits(letter) for letter in (*token, _END))
        return sum(self._letters.escape_bits + of_any if bits is None else bits for bits in seen)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values that `from_dict` reads back."""
        return {"left_out": dict(self.left_out), "letters": None if self.letters is None else dict(self.letters)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned."""
        return cls(values["left_out"], values["letters"])
