"""The common interface of words, characters, blanks and subwords."""

from collections.abc import Sequence
from typing import Any, Protocol

from model.data.tokens.vocabulary import UNITS, Vocabulary


class Tokens(Protocol):
    """A mapping from texts to token numbers and back."""

    @property
    def unit(self) -> str:
        """What a token is."""

    def __len__(self) -> int: ...

    def normalize(self, text: str) -> str:
        """Return the text as it is read, which a perfect prediction gives back but for white space."""

    def encode(self, text: str) -> list[int]:
        """Return the text's token numbers; may be empty."""

    def names(self, numbers: Sequence[int]) -> list[str]:
        """Return each token by itself, the special ones included."""

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text of these token numbers."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values that `tokens_from_dict` reads back."""


def learn_tokens(texts: Sequence[str], *, unit: str, lowercase: bool, min_count: int, max_size: int | None) -> Tokens:
    """Return the tokens of the training part's `texts`."""
    if unit == "subwords":
        from model.data.tokens.subwords import Subwords  # here: only subwords need the library

        assert max_size is not None  # the configuration checks it
        return Subwords.learn(texts, lowercase=lowercase, min_count=min_count, max_size=max_size)
    return Vocabulary.learn(texts, unit=unit, lowercase=lowercase, min_count=min_count, max_size=max_size)


def learn_pair(data: Any, sources: Sequence[str], targets: Sequence[str]) -> tuple[Tokens, Tokens]:
    """Return the tokens of both sides of the training part by the settings of `data`, the same where they share one."""
    settings = {"lowercase": data.lowercase, "min_count": data.min_count, "max_size": data.max_size}
    if data.shared_vocabulary:
        shared = learn_tokens([*sources, *targets], unit=data.tokens, **settings)
        return shared, shared
    target_unit = data.target_tokens or data.tokens
    return learn_tokens(sources, unit=data.tokens, **settings), learn_tokens(targets, unit=target_unit, **settings)


def tokens_from_dict(values: dict[str, Any]) -> Tokens:
    """Read what `to_dict` returned."""
    if "tokenizer" in values:
        from model.data.tokens.subwords import ByteSubwords, Subwords  # here: only subwords need the library

        return (Subwords if values["unit"] == Subwords.unit else ByteSubwords).from_dict(values)
    return Vocabulary.from_dict(values)


def split_reference(text: str, unit: str) -> list[str]:
    """Return a reference text as the tokens in which errors are counted: for subwords, words between blanks."""
    split, _ = UNITS["blanks" if unit == "subwords" else unit]
    return split(text)


def join_tokens(tokens: Sequence[str], unit: str) -> str:
    """Return tokens as one text, in the form of a decoded prediction."""
    _, joint = UNITS["blanks" if unit == "subwords" else unit]
    return joint.join(tokens)
