"""Texts as token numbers: words or characters, counted in the training part only."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

PADDING, UNKNOWN = 0, 1
SPECIAL = ("<padding>", "<unknown>")
WORD = re.compile(r"\w+|[^\w\s]")


def split_words(text: str) -> list[str]:
    """Runs of letters, digits and underscores, and every other sign by itself; white space only separates."""
    return WORD.findall(text)


SPLITTERS: dict[str, Callable[[str], list[str]]] = {"words": split_words, "characters": list}


@dataclass(frozen=True)
class Vocabulary:
    """The known tokens, most frequent first, after the special ones.

    Attributes:
        tokens: all tokens; a token's number is its place.
    """

    unit: Literal["words", "characters"]
    lowercase: bool
    tokens: tuple[str, ...]

    @classmethod
    def learn(
        cls,
        texts: Iterable[str],
        *,
        unit: Literal["words", "characters"],
        lowercase: bool,
        min_count: int,
        max_size: int | None,
    ) -> "Vocabulary":
        """Counts `texts`, the training part's; of equally frequent tokens the earlier in code point order comes first.

        Args:
            texts: the training part's texts.
            unit: what a token is.
            lowercase: whether letter case is ignored.
            min_count: tokens seen less often are left out.
            max_size: at most this many tokens besides the special ones; None = no limit.
        """
        split = SPLITTERS[unit]
        counts = Counter(token for text in texts for token in split(text.lower() if lowercase else text))
        kept = sorted((token for token, count in counts.items() if count >= min_count), key=lambda t: (-counts[t], t))
        return cls(unit, lowercase, SPECIAL + tuple(kept[:max_size]))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Each token's number."""
        return {token: number for number, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """The text's token numbers; unknown tokens become UNKNOWN, and so does a text without any token."""
        numbers = self.numbers
        tokens = SPLITTERS[self.unit](text.lower() if self.lowercase else text)
        return [numbers.get(token, UNKNOWN) for token in tokens] or [UNKNOWN]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able values."""
        return {"unit": self.unit, "lowercase": self.lowercase, "tokens": list(self.tokens)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Vocabulary":
        """What `to_dict` gave."""
        return cls(values["unit"], values["lowercase"], tuple(values["tokens"]))
