"""The interface of all kinds of tokens: words, characters, subwords, and pieces of text separated by blanks."""

from collections.abc import Sequence
from typing import Any, Protocol

from model.data.tokens.vocabulary import UNITS, Vocabulary


class Tokens(Protocol):
    """A mapping from texts to token numbers and back."""

    @property
    def unit(self) -> str:
        """The kind of tokens, such as `words`."""

    def __len__(self) -> int: ...

    def normalize(self, text: str) -> str:
        """Return the text with the changes that `encode` makes to characters, such as lower case."""

    def encode(self, text: str) -> list[int]:
        """Return the token numbers of the text; the list may be empty."""

    def names(self, numbers: Sequence[int]) -> list[str]:
        """Return each token as text; a special token becomes its name, such as `<end>`."""

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text of these token numbers."""

    def to_dict(self) -> dict[str, Any]:
        """Return the tokens as a JSON-able dict; `tokens_from_dict` is the inverse."""


def learn_tokens(texts: Sequence[str], *, unit: str, lowercase: bool, min_count: int, max_size: int | None) -> Tokens:
    """Learn and return tokens of the given unit from the texts of the training split."""
    if unit == "subwords":
        from model.data.tokens.subwords import Subwords  # imported here, because it loads a library

        assert max_size is not None  # the configuration checks it
        return Subwords.learn(texts, lowercase=lowercase, min_count=min_count, max_size=max_size)
    return Vocabulary.learn(texts, unit=unit, lowercase=lowercase, min_count=min_count, max_size=max_size)


def learn_pair(data: Any, sources: Sequence[str], targets: Sequence[str]) -> tuple[Tokens, Tokens]:
    """Return the `Tokens` of the sources and the `Tokens` of the targets, learned from the training split.

    With `data.shared_vocabulary`, learn one `Tokens` object from sources and targets together, and return the object
    twice.
    """
    settings = {"lowercase": data.lowercase, "min_count": data.min_count, "max_size": data.max_size}
    if data.shared_vocabulary:
        shared = learn_tokens([*sources, *targets], unit=data.tokens, **settings)
        return shared, shared
    target_unit = data.target_tokens or data.tokens
    return learn_tokens(sources, unit=data.tokens, **settings), learn_tokens(targets, unit=target_unit, **settings)


def tokens_from_dict(values: dict[str, Any]) -> Tokens:
    """Build tokens from a dict that `Tokens.to_dict` returned."""
    if "tokenizer" in values:
        from model.data.tokens.subwords import ByteSubwords, Subwords  # imported here, because it loads a library

        return (Subwords if values["unit"] == Subwords.unit else ByteSubwords).from_dict(values)
    return Vocabulary.from_dict(values)


def split_reference(text: str, unit: str) -> list[str]:
    """Split a reference text into the tokens that metrics compare; if `unit` is subwords, split the text at blanks."""
    split, _ = UNITS["blanks" if unit == "subwords" else unit]
    return split(text)


def join_tokens(tokens: Sequence[str], unit: str) -> str:
    """Join tokens to a text, with blanks between them; if `unit` is characters, with nothing between them."""
    _, joint = UNITS["blanks" if unit == "subwords" else unit]
    return joint.join(tokens)
