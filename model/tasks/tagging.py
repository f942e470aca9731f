"""Tagging: one label per word."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from model.config.whole import Config
from model.data.batches import Ragged, to_device
from model.data.packing import Packing
from model.data.tokens.vocabulary import SPECIAL, UNKNOWN, frequent, numbered
from model.errors import DataError
from model.networks.tagger import Tagger
from model.tasks.by_example import ByExample
from model.tasks.cross_entropy import NO_TARGET, Loss, summed_cross_entropy
from model.tasks.metrics import MeasuredLabels, label_metrics, label_sums, measured_labels
from model.tasks.task import Forward, Item


@dataclass(frozen=True)
class TaggedSentences:
    """Encoded sentences; each sequence is a whole sentence, or a piece of a long sentence.

    Attributes:
        inputs: for each word, the word's index in `Tagging.words` and its ending's index in `Tagging.endings`.
        targets: for each word, the index of its tag in `Tagging.tags`.
    """

    inputs: Ragged
    targets: Ragged

    @property
    def lengths(self) -> Tensor:
        """The number of words in each sequence, (sequences,)."""
        return self.inputs.lengths

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True)
class TaggedBatch:
    """A batch of sentences, padded or packed.

    Attributes:
        inputs: (batch, time, 2), per word two indices: of the word and of its ending; if packed, (1, words, 2).
        attention_mask: (batch, time), True = a word, False = padding; None = no padding. In a packed batch, the
            `Packing` takes the place of the mask.
        targets: (batch, time), the index of each word's tag, NO_TARGET at padding; if packed, (1, words).
    """

    inputs: Tensor
    attention_mask: Tensor | Packing | None
    targets: Tensor


@dataclass(frozen=True)
class Tagging:
    """The task to tag words; stores the tags, the words, and the endings of words.

    The ending of a word is its last `ending_length` letters, with a mark if the word begins with a capital letter.
    Ending and mark are hints to the tag of a rare word. Tags, words and endings are numbered by their positions in
    `tags`, `words` and `endings`. `tags` is sorted. `words` and `endings` begin with the special tokens; the other
    entries follow, the most frequent first. Sentences are split into pieces of at most `max_length` words.
    """

    tags: tuple[str, ...]
    words: tuple[str, ...]
    endings: tuple[str, ...]
    lowercase: bool
    ending_length: int
    max_length: int

    metric_names: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "loss")
    encoded_type: ClassVar[type] = TaggedSentences

    @classmethod
    def learn(cls, config: Config[Any, Any], items: Sequence[dict[str, Any]], train: Sequence[int]) -> "Tagging":
        """Return a `Tagging` with the tags of all `items`, and the words and endings of the training split only.

        The names of the tags leak no validation data, because they reveal no example.

        Raises:
            DataError: no word occurs `min_count` times in the training split.
        """
        data = config.data
        forms = Counter(form for position in train for form in items[position]["words"])
        words: Counter[str] = Counter()
        endings: Counter[str] = Counter()
        for form, count in forms.items():
            words[form.lower() if data.lowercase else form] += count
            endings[_ending(form, data.ending_length)] += count
        known_words = frequent(words, data.min_count)
        if not known_words:
            raise DataError(
                f"data.min_count: must be lower, given {data.min_count}; no word occurs at least "
                f"{data.min_count} times in the training split"
            )
        return cls(
            tuple(sorted({tag for item in items for tag in item["tags"]})),
            SPECIAL + known_words[: data.max_size],
            SPECIAL + frequent(endings, data.min_count),
            data.lowercase,
            data.ending_length,
            data.max_length,
        )

    def build(self, config: Config[Any, Any]) -> Tagger:
        """Return a tagger with initial weights."""
        return Tagger(
            config.model,
            vocabulary_size=len(self.words),
            num_endings=len(self.endings),
            num_tags=len(self.tags),
            max_length=self.max_length,
        )

    @cached_property
    def _numbers(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        return numbered(self.words), numbered(self.endings), {tag: number for number, tag in enumerate(self.tags)}

    def encode(self, items: Sequence[dict[str, Any]]) -> TaggedSentences:
        """Return sentences as numbers, long sentences in pieces; a tag outside of `tags` has the number len(tags)."""
        words, endings, tags = self._numbers
        flat_inputs, flat_tags, lengths = [], [], []
        for item in items:
            for form, tag in zip(item["words"], item["tags"], strict=True):
                word = words.get(form.lower() if self.lowercase else form, UNKNOWN)
                flat_inputs.append((word, endings.get(_ending(form, self.ending_length), UNKNOWN)))
                flat_tags.append(tags.get(tag, len(tags)))
            whole, rest = divmod(len(item["words"]), self.max_length)
            lengths += [self.max_length] * whole + [rest] * (rest > 0)
        length = torch.tensor(lengths)
        starts = length.cumsum(0) - length
        inputs = Ragged(torch.tensor(flat_inputs), starts, length)
        return TaggedSentences(inputs, Ragged(torch.tensor(flat_tags), starts, length))

    def batch(
        self, encoded: TaggedSentences, indices: Tensor, device: torch.device, *, packed: bool = False
    ) -> TaggedBatch:
        """Return the sentences at `indices` (batch,), padded to the longest sentence, or packed."""
        if packed:
            targets, _ = encoded.targets.pack(indices, device)
            return TaggedBatch(*encoded.inputs.pack(indices, device), targets)
        inputs, attention_mask = encoded.inputs.gather(indices)
        targets, _ = encoded.targets.gather(indices)
        if attention_mask is not None:
            targets, attention_mask = targets.masked_fill(~attention_mask, NO_TARGET), to_device(attention_mask, device)
        return TaggedBatch(to_device(inputs, device), attention_mask, to_device(targets, device))

    def count(self, encoded: TaggedSentences, indices: Tensor) -> int:
        """Return the number of predictions: one per word."""
        return sum(encoded.lengths[indices].tolist())

    def loss(self, network: Forward, batch: TaggedBatch, label_smoothing: float, z_loss: float = 0.0) -> Loss:
        """Return the summed loss of all predictions of a batch."""
        logits = network(batch.inputs, batch.attention_mask).float().flatten(0, 1)
        return summed_cross_entropy(logits, batch.targets.flatten(), label_smoothing, z_loss)

    def measure(
        self, network: nn.Module, encoded: TaggedSentences, indices: Tensor, device: torch.device
    ) -> MeasuredLabels:
        """Return the predicted tags of a batch's words, and the cross-entropy of the true tags."""
        batch = self.batch(encoded, indices, device)
        is_word = batch.targets != NO_TARGET
        logits = network(batch.inputs, batch.attention_mask).float()[is_word]
        return measured_labels(logits, batch.targets[is_word])

    def metrics(self, encoded: TaggedSentences, measured: Sequence[MeasuredLabels]) -> dict[str, float]:  # noqa: ARG002
        """Return accuracy and macro F1 (0 .. 1, higher is better), and mean cross-entropy in nats (lower is better).

        Each word counts once. A word whose tag is not in `tags` counts as wrong, and is left out of the mean
        cross-entropy.
        """
        return label_metrics(measured, len(self.tags))

    def by_example(
        self, items: Sequence[Item], encoded: TaggedSentences, measured: Sequence[MeasuredLabels], order: Tensor
    ) -> dict[str, ByExample | str]:
        """Return the contribution of each sentence to accuracy and to macro F1; see `Task.by_example`."""
        pieces = zip(encoded.targets.starts[order].tolist(), encoded.lengths[order].tolist(), strict=True)
        words = torch.cat([torch.arange(start, start + length) for start, length in pieces])
        sentence_of_word = torch.repeat_interleave(torch.tensor([len(item["words"]) for item in items]))
        return label_sums(measured, sentence_of_word[words], len(items), len(self.tags))

    def to_dict(self) -> dict[str, Any]:
        """Return this object as a JSON-able dict; `from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Tagging":
        """Build a `Tagging` from a dict that `to_dict` returned."""
        names = ("tags", "words", "endings")
        return cls(**(values | {name: tuple(values[name]) for name in names}))


def _ending(form: str, length: int) -> str:
    """Return the last letters of a word, such as `ing`, with `^` in front if the word begins with a capital letter."""
    return ("^" if form[:1].isupper() else "") + (form[-length:].lower() if length else "")
