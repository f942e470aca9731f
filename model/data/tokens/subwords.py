"""Texts as subwords: byte-pair encoding, learned from the training part by the `tokenizers` library."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from model.data.tokens.vocabulary import END, PADDING, SPECIAL, START

MARK = "\u2581"  # of the library's Metaspace: stands for a blank, so that a text's own is read as one
# The special tokens inside the tokenizer. A text has no blank once it is split, so that no merge can make one of them.
RESERVED = tuple(f" {name} " for name in SPECIAL)


@dataclass(frozen=True)
class Subwords:
    """A trained tokenizer, as its own JSON; white space is kept by a mark at the start of each word.

    Source: Sennrich, Haddow, Birch 2016, "Neural machine translation of rare words with subword units".
    """

    definition: str
    unit: str = "subwords"

    @classmethod
    def learn(cls, texts: Iterable[str], *, lowercase: bool, min_count: int, max_size: int) -> "Subwords":
        """Merge the most frequent pair until there are `max_size` tokens, or none occurs `min_count` times."""
        tokenizer = Tokenizer(models.BPE(unk_token=RESERVED[1]))
        steps = [normalizers.NFC()] + ([normalizers.Lowercase()] if lowercase else [])
        tokenizer.normalizer = normalizers.Sequence(steps)
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        size = max_size + len(SPECIAL)
        trainer = trainers.BpeTrainer(
            vocab_size=size, min_frequency=min_count, special_tokens=list(RESERVED), show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer.to_str())

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_str(self.definition)
        tokenizer.encode_special_tokens = True  # a text that has the name of a special token is a text
        return tokenizer

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def normalize(self, text: str) -> str:
        """Return the text as it is split: in NFC, in lower case where letter case is ignored; the mark is a blank."""
        return str(self._tokenizer.normalizer.normalize_str(text)).replace(MARK, " ")

    def encode(self, text: str) -> list[int]:
        """Return the text's subword numbers; characters not seen in training become UNKNOWN. May be empty."""
        return list(self._tokenizer.encode(text).ids)

    def names(self, numbers: Sequence[int]) -> list[str]:
        """Return each subword by itself, the special ones included."""
        return [
            SPECIAL[number] if number < len(SPECIAL) else str(self._tokenizer.id_to_token(number)) for number in numbers
        ]

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text of these subwords, without padding, start and end."""
        kept = [number for number in numbers if number not in (PADDING, START, END)]
        return str(self._tokenizer.decoder.decode(self.names(kept)))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values that `from_dict` reads back."""
        return {"unit": self.unit, "tokenizer": json.loads(self.definition)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Subwords":
        """Read what `to_dict` returned."""
        return cls(json.dumps(values["tokenizer"]))


@dataclass(frozen=True)
class ByteSubwords(Subwords):
    """A tokenizer over bytes: every text is given back to the last character, and none has an unknown token.

    Source: Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.2, whose pattern keeps
    words, numbers, signs and white space apart, and a blank with the word that follows.
    """

    unit: str = "byte-level subwords"

    @classmethod
    def learn(cls, texts: Iterable[str], *, lowercase: bool, min_count: int, max_size: int) -> "ByteSubwords":
        """Merge the most frequent pair until there are `max_size` tokens, or none occurs `min_count` times.

        The 256 bytes are among them.
        """
        tokenizer = Tokenizer(models.BPE())
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase()] if lowercase else [])
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=max_size + len(SPECIAL),
            min_frequency=min_count,
            special_tokens=list(RESERVED),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer.to_str())

    def normalize(self, text: str) -> str:
        """Return the text as it is split: in lower case where letter case is ignored."""
        return str(self._tokenizer.normalizer.normalize_str(text))
