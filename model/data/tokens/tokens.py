"""Words, characters, blanks or subwords: one way to learn and to keep them."""

from collections.abc import Sequence
from typing import Any, Protocol

from model.data.tokens.vocabulary import UNITS, Vocabulary


class Tokens(Protocol):
    """Texts to token numbers and back."""

    @property
    def unit(self) -> str:
        """What a token is."""

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """The text's token numbers; may be empty."""

    def names(self, numbers: Sequence[int]) -> list[str]:
        """Each token by itself, the special ones included."""

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of these token numbers."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able values."""


def learn_tokens(texts: Sequence[str], *, unit: str, lowercase: bool, min_count: int, max_size: int | None) -> Tokens:
    """The tokens of the training part's `texts`."""
    if unit == "subwords":
        from model.data.tokens.subwords import Subwords  # here: only subwords need the library

        assert max_size is not None  # the configuration sees to it
        return Subwords.learn(texts, lowercase=lowercase, min_count=min_count, max_size=max_size)
    return Vocabulary.learn(texts, unit=unit, lowercase=lowercase, min_count=min_count, max_size=max_size)


def tokens_from_dict(values: dict[str, Any]) -> Tokens:
    """What `to_dict` gave."""
    if values["unit"] == "subwords":
        from model.data.tokens.subwords import Subwords  # here: only subwords need the library

        return Subwords.from_dict(values)
    return Vocabulary.from_dict(values)


def split_reference(text: str, unit: str, lowercase: bool) -> list[str]:
    """A reference text in the tokens that errors are counted in: words between blanks where tokens are subwords."""
    split, _ = UNITS["blanks" if unit == "subwords" else unit]
    return split(text.lower() if lowercase else text)


def join_tokens(tokens: Sequence[str], unit: str) -> str:
    """Tokens as one text, as a decoded prediction reads."""
    _, joint = UNITS["blanks" if unit == "subwords" else unit]
    return joint.join(tokens)
