"""Texts as subwords: byte-pair encoding, learned from the training split by the `tokenizers` library."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from model.data.tokens.vocabulary import END, PADDING, SPECIAL, START

MARK = "\u2581"  # the library's Metaspace replaces blanks by this character, so in a text it is read as a blank
# The names of the special tokens inside the tokenizer. They contain blanks, so no merge of subwords can produce them.
RESERVED = tuple(f" {name} " for name in SPECIAL)


@dataclass(frozen=True)
class Subwords:
    """A trained tokenizer in the JSON format of the `tokenizers` library; MARK before each word stands for white space.

    Source: Sennrich, Haddow, Birch 2016, "Neural machine translation of rare words with subword units".
    """

    definition: str
    unit: str = "subwords"

    @classmethod
    def learn(cls, texts: Iterable[str], *, lowercase: bool, min_count: int, max_size: int) -> "Subwords":
        """Return a tokenizer; its first tokens are the special tokens and all characters of the texts.

        Merge the most frequent pair of tokens until `max_size` tokens exist (special tokens do not count), or no pair
        occurs `min_count` times. Every character becomes a token, even if the texts have more than `max_size` different
        characters; no pair is merged then.
        """
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
        tokenizer.encode_special_tokens = True  # if a text contains the name of a special token, read it as text
        return tokenizer

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def normalize(self, text: str) -> str:
        """Return the text in NFC, with blanks in place of MARK, and in lower case if letter case is ignored."""
        return str(self._tokenizer.normalizer.normalize_str(text)).replace(MARK, " ")

    def encode(self, text: str) -> list[int]:
        """Return the text's subword numbers; the list may be empty. UNKNOWN replaces characters unseen in training."""
        return list(self._tokenizer.encode(text).ids)

    def names(self, numbers: Sequence[int]) -> list[str]:
        """Return each subword as text; a special token becomes its name in SPECIAL, such as `<end>`."""
        return [
            SPECIAL[number] if number < len(SPECIAL) else str(self._tokenizer.id_to_token(number)) for number in numbers
        ]

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text of these subwords; PADDING, START and END are left out."""
        own = [number for number in numbers if number not in (PADDING, START, END)]
        return str(self._tokenizer.decoder.decode(self.names(own)))

    def to_dict(self) -> dict[str, Any]:
        """Return the tokenizer as a JSON-able dict; `from_dict` is the inverse."""
        return {"unit": self.unit, "tokenizer": json.loads(self.definition)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Subwords":
        """Build a tokenizer from a dict that `to_dict` returned."""
        return cls(json.dumps(values["tokenizer"]))


@dataclass(frozen=True)
class ByteSubwords(Subwords):
    """A tokenizer over bytes; no text is unknown, and the tokens reproduce every normalized text exactly.

    Before bytes are merged, a pattern separates words, numbers, punctuation and white space. A blank is joined to the
    word, number or punctuation after it.

    Source: Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.2.
    """

    unit: str = "byte-level subwords"

    @classmethod
    def learn(cls, texts: Iterable[str], *, lowercase: bool, min_count: int, max_size: int) -> "ByteSubwords":
        """Return a tokenizer, learned as in `Subwords.learn`; the `max_size` tokens include the 256 bytes."""
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
        """Return the text, in lower case if letter case is ignored."""
        return str(self._tokenizer.normalizer.normalize_str(text))
