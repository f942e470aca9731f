"""Converts texts to token ids: each token becomes its position in the vocabulary.

A vocabulary contains only tokens of the training split.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from model.errors import DataError

PADDING, UNKNOWN, START, END = 0, 1, 2, 3
SPECIAL = ("<padding>", "<unknown>", "<start>", "<end>")
# A word is a run of letters, digits and underscores, or any other character except white space.
WORD = re.compile(r"\w+|[^\w\s]")


def numbered(tokens: Sequence[str]) -> dict[str, int]:
    """Return a dict from each token to its number, the position of the token in `tokens`.

    `tokens` begins with the special tokens. The result leaves out the special tokens, because they never occur in a
    text.
    """
    return {token: number for number, token in enumerate(tokens[len(SPECIAL) :], start=len(SPECIAL))}


def frequent(counts: Counter[str], min_count: int) -> tuple[str, ...]:
    """Return the keys whose count is at least `min_count`, by falling count; ties are in code point order."""
    known = [name for name, count in counts.items() if count >= min_count]
    return tuple(sorted(known, key=lambda name: (-counts[name], name)))


# For each unit, the function that splits a text into tokens, and the separator that joins tokens to a text.
UNITS: dict[str, tuple[Callable[[str], list[str]], str]] = {
    "words": (WORD.findall, " "),
    "characters": (list, ""),
    "blanks": (str.split, " "),
}


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a vocabulary, and the way to split texts into tokens.

    Attributes:
        unit: `words`, `characters`, or `blanks` (a token is all text between two blanks).
        lowercase: whether letter case is ignored.
        tokens: the special tokens, then the other tokens, the most frequent first. The number of a token is its
            position. An `<end>` in a text is never the special token `<end>`.
    """

    unit: str
    lowercase: bool
    tokens: tuple[str, ...]

    @classmethod
    def learn(
        cls, texts: Iterable[str], *, unit: str, lowercase: bool, min_count: int, max_size: int | None
    ) -> "Vocabulary":
        """Return the vocabulary of the training split, by falling frequency; ties are in code point order.

        Args:
            texts: the texts of the training split.
            unit, lowercase: see the class.
            min_count: tokens that occur less often than this are left out.
            max_size: the largest number of tokens, without the special tokens; None = no limit.

        Raises:
            DataError: no token occurs `min_count` times.
        """
        split, _ = UNITS[unit]
        counts = Counter(token for text in texts for token in split(text.lower() if lowercase else text))
        known = frequent(counts, min_count)
        if not known:
            raise DataError(
                f"data.min_count: must be lower, given {min_count}; no token occurs at least "
                f"{min_count} times in the training split"
            )
        return cls(unit, lowercase, SPECIAL + known[:max_size])

    @cached_property
    def numbers(self) -> dict[str, int]:
        """A dict from token to number. Special tokens are left out, because a special token never occurs in a text."""
        return numbered(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def normalize(self, text: str) -> str:
        """Return the text, in lower case if letter case is ignored."""
        return text.lower() if self.lowercase else text

    def split(self, text: str) -> list[str]:
        """Return the tokens of a text, also tokens outside of the vocabulary; the list may be empty."""
        split, _ = UNITS[self.unit]
        return split(self.normalize(text))

    def encode(self, text: str) -> list[int]:
        """Return the token numbers of the text; the list may be empty. UNKNOWN replaces tokens outside of `tokens`."""
        numbers = self.numbers
        return [numbers.get(token, UNKNOWN) for token in self.split(text)]

    def names(self, numbers: Sequence[int]) -> list[str]:
        """Return each token as text; a special token becomes its name in SPECIAL, such as `<end>`."""
        return [self.tokens[number] for number in numbers]

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text of these token numbers; PADDING, START and END are left out."""
        _, joint = UNITS[self.unit]
        return joint.join(self.tokens[number] for number in numbers if number not in (PADDING, START, END))

    def to_dict(self) -> dict[str, Any]:
        """Return the vocabulary as a JSON-able dict; `from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Vocabulary":
        """Build a vocabulary from a dict that `to_dict` returned."""
        return cls(values["unit"], values["lowercase"], tuple(values["tokens"]))
