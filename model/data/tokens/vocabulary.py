"""Texts as token numbers: words or characters, counted in the training part only."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from model.errors import DataError

PADDING, UNKNOWN, START, END = 0, 1, 2, 3
SPECIAL = ("<padding>", "<unknown>", "<start>", "<end>")
WORD = re.compile(r"\w+|[^\w\s]")


def numbered(tokens: Sequence[str]) -> dict[str, int]:
    """Return the number of each token that a text can have: its place, after the special ones."""
    return {token: number for number, token in enumerate(tokens[len(SPECIAL) :], start=len(SPECIAL))}


def split_words(text: str) -> list[str]:
    """Return runs of letters, digits and underscores, and every other character alone; white space only separates."""
    return WORD.findall(text)


# For each unit: how a text is split, and what separates tokens when they are joined again.
UNITS: dict[str, tuple[Callable[[str], list[str]], str]] = {
    "words": (split_words, " "),
    "characters": (list, ""),
    "blanks": (str.split, " "),
}


@dataclass(frozen=True)
class Vocabulary:
    """The known tokens, most frequent first, after the special ones.

    Attributes:
        unit: words | characters | blanks (everything between two blanks is a token).
        tokens: all tokens, the special ones first; a token's number is its position. A text's own `<end>` is another
            token than the special one of this name.
    """

    unit: str
    lowercase: bool
    tokens: tuple[str, ...]

    @classmethod
    def learn(
        cls, texts: Iterable[str], *, unit: str, lowercase: bool, min_count: int, max_size: int | None
    ) -> "Vocabulary":
        """Return the vocabulary of the training part; equally frequent tokens are in code point order.

        Tokens seen less often than `min_count` are omitted; there are at most `max_size` besides the special ones, None
        = no limit. DataError where none is left.
        """
        split, _ = UNITS[unit]
        counts = Counter(token for text in texts for token in split(text.lower() if lowercase else text))
        kept = sorted((token for token, count in counts.items() if count >= min_count), key=lambda t: (-counts[t], t))
        if not kept:
            raise DataError(
                f"data.min_count: no token occurs {min_count} times in the training part, so that every text would "
                f"read the same; give a lower number"
            )
        return cls(unit, lowercase, SPECIAL + tuple(kept[:max_size]))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Each token's number; a text's own `<end>` is never a special token."""
        return numbered(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def normalize(self, text: str) -> str:
        """Return the text as it is split: in lower case where letter case is ignored."""
        return text.lower() if self.lowercase else text

    def split(self, text: str) -> list[str]:
        """Return the text's tokens, known or not. May be empty."""
        split, _ = UNITS[self.unit]
        return split(self.normalize(text))

    def encode(self, text: str) -> list[int]:
        """Return the text's token numbers; unknown tokens become UNKNOWN. May be empty."""
        numbers = self.numbers
        return [numbers.get(token, UNKNOWN) for token in self.split(text)]

    def names(self, numbers: Sequence[int]) -> list[str]:
        """Return each token by itself, the special ones included."""
        return [self.tokens[number] for number in numbers]

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text of these token numbers, without padding, start and end."""
        _, joint = UNITS[self.unit]
        return joint.join(self.tokens[number] for number in numbers if number not in (PADDING, START, END))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values that `from_dict` reads back."""
        return {"unit": self.unit, "lowercase": self.lowercase, "tokens": list(self.tokens)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Vocabulary":
        """Read what `to_dict` returned."""
        return cls(values["unit"], values["lowercase"], tuple(values["tokens"]))
