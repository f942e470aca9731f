"""The interface of all kinds of tokens: words, characters, blanks and subwords."""

from collections.abc import Sequence
from typing import Any, Protocol

from model.data.tokens.vocabulary import UNITS, Vocabulary


class Tokens(Protocol):
    """A mapping from texts to token numbers and back."""

    @property
    def unit(self) -> str:
        """The kind of tokens."""

    def __len__(self) -> int: ...

    def normalize(self, text: str) -> str:
        """Return the text in the form that tokens reproduce, except for white space."""

    def encode(self, text: str) -> list[int]:
        """Return the text's token numbers, possibly none."""

    def names(self, numbers: Sequence[int]) -> list[str]:
        """Return each token as text, including the special ones."""

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text of these token numbers."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values that `tokens_from_dict` reads back."""


def learn_tokens(texts: Sequence[str], *, unit: str, lowercase: bool, min_count: int, max_size: int | None) -> Tokens:
    """Return the tokens of the `texts` of the training split."""
    if unit == "subwords":
        from model.data.tokens.subwords import Subwords  # imported here, because it loads a library

        assert max_size is not None  # the configuration checks it
        return Subwords.learn(texts, lowercase=lowercase, min_count=min_count, max_size=max_size)
    return Vocabulary.learn(texts, unit=unit, lowercase=lowercase, min_count=min_count, max_size=max_size)


def learn_pair(data: Any, sources: Sequence[str], targets: Sequence[str]) -> tuple[Tokens, Tokens]:
    """Return the tokens of both sides of the training split; with `shared_vocabulary` they are the same."""
    settings = {"lowercase": data.lowercase, "min_count": data.min_count, "max_size": data.max_size}
    if data.shared_vocabulary:
        shared = learn_tokens([*sources, *targets], unit=data.tokens, **settings)
        return shared, shared
    target_unit = data.target_tokens or data.tokens
    return learn_tokens(sources, unit=data.tokens, **settings), learn_tokens(targets, unit=target_unit, **settings)


def tokens_from_dict(values: dict[str, Any]) -> Tokens:
    """Read the dict of `to_dict`."""
    if "tokenizer" in values:
        from model.data.tokens.subwords import ByteSubwords, Subwords  # imported here, because it loads a library

        return (Subwords if values["unit"] == Subwords.unit else ByteSubwords).from_dict(values)
    return Vocabulary.from_dict(values)


def split_reference(text: str, unit: str) -> list[str]:
    """Return a reference text as the tokens that metrics compare: for subwords, the words between blanks."""
    split, _ = UNITS["blanks" if unit == "subwords" else unit]
    return split(text)


def join_tokens(tokens: Sequence[str], unit: str) -> str:
    """Return tokens as a text, in the form of a decoded prediction."""
    _, joint = UNITS["blanks" if unit == "subwords" else unit]
    return joint.join(tokens)
