"""Classification: one label per sequence."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from model.config.whole import Config
from model.data.batches import Ragged, to_device
from model.data.packing import Packing
from model.data.tokens.vocabulary import UNKNOWN, Vocabulary
from model.networks.classifier import Classifier
from model.tasks.by_example import ByExample
from model.tasks.cross_entropy import Loss, summed_cross_entropy
from model.tasks.metrics import MeasuredLabels, label_metrics, label_sums, measured_labels
from model.tasks.task import Forward, Item

LARGEST_PIXEL = 16  # the largest number in scikit-learn's digits; dividing by it gives numbers from 0 to 1


@dataclass(frozen=True)
class LabelledSequences:
    """Sequences with one class number each.

    Attributes:
        inputs: the sequences.
        targets: (examples,), the class number of each sequence.
    """

    inputs: Ragged
    targets: Tensor

    @property
    def lengths(self) -> Tensor:
        """The number of tokens in each sequence, (examples,)."""
        return self.inputs.lengths

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class LabelledBatch:
    """A batch of sequences, padded or packed.

    Attributes:
        inputs: (batch, time) token numbers, or (batch, time, features); if packed, (1, tokens) or (1, tokens,
            features).
        attention_mask: (batch, time), True = a token, False = padding; None = no padding. In a packed batch, the
            `Packing` takes the place of the mask.
        targets: (batch,), the class number of each sequence.
    """

    inputs: Tensor
    attention_mask: Tensor | Packing | None
    targets: Tensor


@dataclass(frozen=True)
class Classification:
    """The task to classify sequences; stores the classes and, for texts, the vocabulary.

    Classes are numbered by their position in `classes`, which is sorted. Texts are cut to `max_length` tokens. If each
    example is a list of rows of numbers instead of a text, a row has `features` numbers, and there is no vocabulary.
    """

    classes: tuple[str, ...]
    vocabulary: Vocabulary | None
    features: int | None
    max_length: int

    metric_names: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "loss")
    encoded_type: ClassVar[type] = LabelledSequences

    @classmethod
    def learn(cls, config: Config[Any, Any], items: Sequence[dict[str, Any]], train: Sequence[int]) -> "Classification":
        """Return a `Classification` with the classes of all `items`, and the vocabulary of the training split only.

        The names of the classes leak no validation data, because they reveal no example.

        Raises:
            DataError: no token occurs `min_count` times in the training split.
        """
        data, classes = config.data, tuple(sorted({item["label"] for item in items}))
        if "rows" in items[0]:
            rows = items[0]["rows"]
            return cls(classes, None, len(rows[0]), len(rows))
        vocabulary = Vocabulary.learn(
            (items[position]["text"] for position in train),
            unit=data.tokens,
            lowercase=data.lowercase,
            min_count=data.min_count,
            max_size=data.max_size,
        )
        return cls(classes, vocabulary, None, data.max_length)

    def build(self, config: Config[Any, Any]) -> Classifier:
        """Return a classifier with initial weights."""
        return Classifier(
            config.model,
            num_classes=len(self.classes),
            max_length=self.max_length,
            vocabulary_size=None if self.vocabulary is None else len(self.vocabulary),
            features=self.features,
        )

    def encode(self, items: Sequence[dict[str, Any]]) -> LabelledSequences:
        """Return sequences and labels as numbers; a label outside of `classes` has the number len(classes)."""
        numbers = {label: number for number, label in enumerate(self.classes)}
        targets = torch.tensor([numbers.get(item["label"], len(numbers)) for item in items])
        if self.vocabulary is None:
            rows = torch.tensor([item["rows"] for item in items], dtype=torch.float32) / LARGEST_PIXEL
            return LabelledSequences(Ragged.of_rows(rows), targets)
        texts = [self.vocabulary.encode(item["text"])[: self.max_length] or [UNKNOWN] for item in items]
        return LabelledSequences(Ragged.of(texts), targets)

    def batch(
        self, encoded: LabelledSequences, indices: Tensor, device: torch.device, *, packed: bool = False
    ) -> LabelledBatch:
        """Return the examples at `indices` (batch,), padded to the longest example, or packed."""
        targets = to_device(encoded.targets[indices], device)
        if packed:
            return LabelledBatch(*encoded.inputs.pack(indices, device), targets)
        inputs, attention_mask = encoded.inputs.gather(indices)
        attention_mask = None if attention_mask is None else to_device(attention_mask, device)
        return LabelledBatch(to_device(inputs, device), attention_mask, targets)

    def count(self, encoded: LabelledSequences, indices: Tensor) -> int:  # noqa: ARG002 -- the same call as its siblings
        """Return the number of predictions: one per example."""
        return len(indices)

    def loss(self, network: Forward, batch: LabelledBatch, label_smoothing: float, z_loss: float = 0.0) -> Loss:
        """Return the summed loss of all predictions of a batch."""
        logits = network(batch.inputs, batch.attention_mask).float()
        return summed_cross_entropy(logits, batch.targets, label_smoothing, z_loss)

    def measure(
        self, network: nn.Module, encoded: LabelledSequences, indices: Tensor, device: torch.device
    ) -> MeasuredLabels:
        """Return the predicted labels of a batch, and the cross-entropy of the true labels."""
        batch = self.batch(encoded, indices, device)
        logits = network(batch.inputs, batch.attention_mask).float()
        return measured_labels(logits, batch.targets)

    def metrics(self, encoded: LabelledSequences, measured: Sequence[MeasuredLabels]) -> dict[str, float]:  # noqa: ARG002
        """Return accuracy and macro F1 (0 .. 1, higher is better), and mean cross-entropy in nats (lower is better).

        An example whose label is not in `classes` counts as wrong, and is left out of the mean cross-entropy.
        """
        return label_metrics(measured, len(self.classes))

    def by_example(
        self,
        items: Sequence[Item],
        encoded: LabelledSequences,  # noqa: ARG002
        measured: Sequence[MeasuredLabels],
        order: Tensor,
    ) -> dict[str, ByExample | str]:
        """Return the contribution of each example to accuracy and to macro F1; see `Task.by_example`."""
        return label_sums(measured, order, len(items), len(self.classes))

    def to_dict(self) -> dict[str, Any]:
        """Return this object as a JSON-able dict; `from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Classification":
        """Build a `Classification` from a dict that `to_dict` returned."""
        vocabulary = None if values["vocabulary"] is None else Vocabulary.from_dict(values["vocabulary"])
        return cls(tuple(values["classes"]), vocabulary, values["features"], values["max_length"])
