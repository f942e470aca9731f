"""Sequence-to-sequence learning: a network reads a source text and predicts a target text, as in translation."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from model.config.whole import Config
from model.data.batches import Ragged, to_device
from model.data.packing import Packing
from model.data.tokens.tokens import Tokens, learn_pair, tokens_from_dict
from model.data.tokens.vocabulary import END, START, UNKNOWN
from model.decoding.beam_search import beam_search
from model.networks.encoder_decoder import EncoderDecoder
from model.tasks.by_example import ByExample
from model.tasks.cross_entropy import NO_TARGET, Loss, token_loss
from model.tasks.sequence_metrics import TextMetrics, Texts
from model.tasks.task import Forward, Item


@dataclass(frozen=True)
class Pairs:
    """Encoded pairs: the source tokens, the target tokens between START and END, and the target texts from the data."""

    sources: Ragged
    targets: Ragged
    references: list[str]

    @property
    def lengths(self) -> Tensor:
        """The number of tokens of each pair's longer side, (examples,); START and END count."""
        return torch.maximum(self.sources.lengths, self.targets.lengths)

    def __len__(self) -> int:
        return len(self.references)


@dataclass(frozen=True)
class PairBatch:
    """A batch: source and mask, (batch, source time) each; decoder inputs and targets, (batch, target time) each.

    In a packed batch, the token tensors are (1, tokens). `source_mask` is then the packing of the source, and
    `target_packing` is the packing of the inputs and targets.
    """

    source: Tensor
    source_mask: Tensor | Packing | None
    inputs: Tensor
    targets: Tensor
    target_packing: Packing | None = None


class MeasuredPairs(NamedTuple):
    """The measurements of one batch.

    Attributes:
        predicted: the decoded text of each example, by the index of the example.
        loss: the summed cross-entropy in nats.
        num_tokens: the number of target tokens that were predicted.
    """

    predicted: dict[int, str]
    loss: float
    num_tokens: int


@dataclass(frozen=True)
class SequenceToSequence:
    """The task to turn a source into a target; stores the tokens of both sides and the settings of beam search.

    Sources and targets are cut to `max_length` tokens; END does not count.
    """

    source_tokens: Tokens
    target_tokens: Tokens
    is_shared: bool
    lowercase: bool
    max_length: int
    beam_size: int
    length_penalty: float
    text_metrics: TextMetrics

    metric_names: ClassVar[tuple[str, ...]] = ("loss", "exact_match", "token_error_rate", "bleu", "chrf")
    encoded_type: ClassVar[type] = Pairs

    @classmethod
    def learn(
        cls, config: Config[Any, Any], items: Sequence[dict[str, Any]], train: Sequence[int]
    ) -> "SequenceToSequence":
        """Return a `SequenceToSequence` with the vocabularies of sources and targets in the training split.

        Raises:
            DataError: no source token or no target token occurs at least `min_count` times in the training split.
        """
        data = config.data
        source, target = learn_pair(data, *([items[at][side] for at in train] for side in ("source", "target")))
        return cls(
            source, target, data.shared_vocabulary, data.lowercase, data.max_length, data.beam_size,
            data.length_penalty, TextMetrics.of(config),
        )  # fmt: skip

    def build(self, config: Config[Any, Any]) -> EncoderDecoder:
        """Return a network with initial weights."""
        return EncoderDecoder(
            config.model,
            source_size=len(self.source_tokens),
            target_size=len(self.target_tokens),
            max_length=self.max_length + 1,
            shared=self.is_shared,
        )

    def encode(self, items: Sequence[dict[str, Any]]) -> Pairs:
        """Return sources and targets as token numbers."""
        sources = [self.source_tokens.encode(item["source"])[: self.max_length] or [UNKNOWN] for item in items]
        targets = [[START, *self.target_tokens.encode(item["target"])[: self.max_length], END] for item in items]
        return Pairs(Ragged.of(sources), Ragged.of(targets), [item["target"] for item in items])

    def batch(self, encoded: Pairs, indices: Tensor, device: torch.device, *, packed: bool = False) -> PairBatch:
        """Return the pairs at `indices` (batch,), padded or packed; each target is the token after its input token."""
        if packed:
            inputs, packing = encoded.targets.pack(indices, device, without_last=True)
            targets, _ = encoded.targets.pack(indices, device, without_first=True)
            return PairBatch(*encoded.sources.pack(indices, device), inputs, targets, packing)
        source, source_mask = encoded.sources.gather(indices)
        target, mask = encoded.targets.gather(indices)
        targets = target[:, 1:] if mask is None else target[:, 1:].masked_fill(~mask[:, 1:], NO_TARGET)
        source_mask = None if source_mask is None else to_device(source_mask, device)
        return PairBatch(
            to_device(source, device), source_mask, to_device(target[:, :-1], device), to_device(targets, device)
        )

    def count(self, encoded: Pairs, indices: Tensor) -> int:
        """Return the number of predictions: one per target token, including END."""
        return sum(encoded.targets.lengths[indices].tolist()) - len(indices)

    def loss(self, network: Forward, batch: PairBatch, label_smoothing: float, z_loss: float = 0.0) -> Loss:
        """Return the summed loss of all predictions of a batch."""
        inputs = (batch.source, batch.source_mask, batch.inputs, batch.target_packing)
        return token_loss(network, inputs, batch.targets, len(self.target_tokens), label_smoothing, z_loss)

    def measure(self, network: nn.Module, encoded: Pairs, indices: Tensor, device: torch.device) -> MeasuredPairs:
        """Return the decoded targets of a batch, and the cross-entropy of the true targets."""
        assert isinstance(network, EncoderDecoder)
        batch = self.batch(encoded, indices, device)
        loss = float(self.loss(network, batch, 0.0).cross_entropy)
        predicted = dict(zip(indices.tolist(), self.predict(network, batch), strict=True))
        return MeasuredPairs(predicted, loss, self.count(encoded, indices))

    def metrics(self, encoded: Pairs, measured: Sequence[MeasuredPairs]) -> dict[str, float]:
        """Return the mean cross-entropy in nats per token (lower is better), and the metrics of the decoded targets.

        For exact_match (0 to 1), bleu and chrf (0 to 100), higher is better; for token_error_rate, lower is better.
        """
        loss = sum(each.loss for each in measured) / sum(each.num_tokens for each in measured)
        return {"loss": loss, **self.text_metrics.compare(self._texts(encoded, measured))}

    def by_example(
        self, items: Sequence[Item], encoded: Pairs, measured: Sequence[MeasuredPairs], order: Tensor
    ) -> dict[str, ByExample | str]:
        """Return each example's contribution to exact_match, token_error_rate and bleu; see `Task.by_example`."""
        del items, order
        return self.text_metrics.by_example(self._texts(encoded, measured))

    def _texts(self, encoded: Pairs, measured: Sequence[MeasuredPairs]) -> Texts:
        of_index = {index: text for each in measured for index, text in each.predicted.items()}
        predicted = [of_index[index] for index in range(len(encoded))]
        # If the metrics compare letter case but the tokens do not have it, keep the case of the references.
        keeps_case = self.lowercase and not self.text_metrics.lowercase
        return self.text_metrics.prepare(
            predicted, encoded.references, str if keeps_case else self.target_tokens.normalize
        )

    def predict(self, network: EncoderDecoder, batch: PairBatch) -> list[str]:
        """Return the decoded target text for each source."""
        return [self.target_tokens.decode(tokens) for tokens in self.predict_tokens(network, batch)]

    def predict_tokens(self, network: EncoderDecoder, batch: PairBatch) -> list[list[int]]:
        """Return the decoded target for each source as token numbers, without START and END."""
        assert not isinstance(batch.source_mask, Packing)
        length = self.max_length + 1
        decoded = beam_search(network, batch.source, batch.source_mask, length, self.beam_size, self.length_penalty)
        return decoded.sequences()

    def to_dict(self) -> dict[str, Any]:
        """Return this object as a JSON-able dict; `from_dict` is the inverse."""
        return {
            "source_tokens": self.source_tokens.to_dict(),
            "target_tokens": self.target_tokens.to_dict(),
            "is_shared": self.is_shared,
            "lowercase": self.lowercase,
            "max_length": self.max_length,
            "beam_size": self.beam_size,
            "length_penalty": self.length_penalty,
            "text_metrics": asdict(self.text_metrics),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "SequenceToSequence":
        """Build a `SequenceToSequence` from a dict that `to_dict` returned."""
        sides = {side: tokens_from_dict(values[side]) for side in ("source_tokens", "target_tokens")}
        return cls(**(values | sides | {"text_metrics": TextMetrics(**values["text_metrics"])}))
