"""Language modelling: the next token of a running text."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from model.config.whole import Config
from model.data.batches import Ragged, to_device
from model.data.tokens.tokens import Tokens, tokens_from_dict
from model.data.tokens.unknown import UnknownTokens
from model.data.tokens.vocabulary import UNKNOWN, Vocabulary
from model.errors import DataError
from model.networks.language_model import LanguageModel
from model.tasks.by_example import ByExample
from model.tasks.cross_entropy import NO_TARGET, Loss, token_loss
from model.tasks.task import Forward, Item


@dataclass(frozen=True)
class TextBlocks:
    """A text, cut into blocks that overlap by one token, so that every token except the first is predicted once.

    Attributes:
        blocks: up to context + 1 tokens each.
        characters_per_token, bytes_per_token: the mean number of characters and UTF-8 bytes of the text per token.
        unknown_bits: the sum of `UnknownTokens.bits` over all predicted tokens that are unknown; 0 = no predicted token
            is unknown.
    """

    blocks: Ragged
    characters_per_token: float
    bytes_per_token: float
    unknown_bits: float

    @property
    def lengths(self) -> Tensor:
        """The number of tokens in each block, (blocks,)."""
        return self.blocks.lengths

    def __len__(self) -> int:
        return len(self.blocks)


@dataclass(frozen=True)
class TextBatch:
    """A batch of inputs and targets, (batch, time) each; targets after the end of the text are NO_TARGET."""

    inputs: Tensor
    targets: Tensor


@dataclass(frozen=True)
class LanguageModelling:
    """The task to predict each next token of a text; stores the vocabulary and the context.

    Attributes:
        vocabulary: the tokens.
        context: the largest number of predictions in a block. A token is predicted from the earlier tokens of its
            block.
        unknown: computes the code length of unknown tokens, in bits; None = no token can be unknown.
    """

    vocabulary: Tokens
    context: int
    unknown: UnknownTokens | None

    metric_names: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "bits_per_character", "bits_per_byte")
    encoded_type: ClassVar[type] = TextBlocks

    @classmethod
    def learn(
        cls, config: Config[Any, Any], items: Sequence[dict[str, Any]], train: Sequence[int]
    ) -> "LanguageModelling":
        """Return a `LanguageModelling` with the vocabulary of the training split.

        Raises:
            DataError: no token occurs `min_count` times in the training split.
        """
        data, texts = config.data, [items[position]["text"] for position in train]
        settings = {"lowercase": data.lowercase, "min_count": data.min_count, "max_size": data.max_size}
        if data.tokens == "subwords":
            from model.data.tokens.subwords import ByteSubwords  # imported here, because it loads a library

            return cls(ByteSubwords.learn(texts, **settings), data.context, None)
        vocabulary = Vocabulary.learn(texts, unit=data.tokens, **settings)
        return cls(vocabulary, data.context, UnknownTokens.learn(texts, vocabulary))

    def build(self, config: Config[Any, Any]) -> LanguageModel:
        """Return a language model with initial weights."""
        return LanguageModel(config.model, vocabulary_size=len(self.vocabulary), max_length=self.context)

    def encode(self, items: Sequence[dict[str, Any]]) -> TextBlocks:
        """Join the texts of the items to one text, and return the joined text in blocks.

        Raises:
            DataError: the text has fewer than two tokens, so no token can be predicted.
        """
        text = "".join(item["text"] for item in items)
        # Encode line by line, as subwords are learned; no token crosses a line break.
        stream = [number for item in items for number in self.vocabulary.encode(item["text"])]
        if len(stream) < 2:
            raise DataError(
                f"the text {text[:30]!r} must have at least two tokens, because the first token cannot be predicted"
            )
        starts = torch.arange(0, len(stream) - 1, self.context)
        lengths = (len(stream) - starts).clamp(max=self.context + 1)
        return TextBlocks(
            Ragged(torch.tensor(stream), starts, lengths),
            characters_per_token=len(text) / len(stream),
            bytes_per_token=len(text.encode()) / len(stream),
            unknown_bits=self._unknown_bits(text, stream),
        )

    def _unknown_bits(self, text: str, stream: Sequence[int]) -> float:
        """Return the sum of `UnknownTokens.bits` over all unknown tokens of the text.

        The first token of the text is left out, because it is never predicted.
        """
        if self.unknown is None:
            return 0.0
        assert isinstance(self.vocabulary, Vocabulary)
        tokens = zip(self.vocabulary.split(text)[1:], stream[1:], strict=True)
        counts = Counter(token for token, number in tokens if number == UNKNOWN)
        return math.fsum(count * self.unknown.bits(token) for token, count in counts.items())

    def batch(self, encoded: TextBlocks, indices: Tensor, device: torch.device, *, packed: bool = False) -> TextBatch:
        """Return the blocks at `indices` (batch,), never packed; each target is the token after its input token."""
        assert not packed
        tokens, mask = encoded.blocks.gather(indices)
        targets = tokens[:, 1:] if mask is None else tokens[:, 1:].masked_fill(~mask[:, 1:], NO_TARGET)
        return TextBatch(to_device(tokens[:, :-1], device), to_device(targets, device))

    def count(self, encoded: TextBlocks, indices: Tensor) -> int:
        """Return the number of predictions: one per token, except the first of each block."""
        return sum(encoded.lengths[indices].tolist()) - len(indices)

    def loss(self, network: Forward, batch: TextBatch, label_smoothing: float, z_loss: float = 0.0) -> Loss:
        """Return the summed loss of all predictions of a batch."""
        return token_loss(network, (batch.inputs,), batch.targets, len(self.vocabulary), label_smoothing, z_loss)

    def measure(
        self, network: nn.Module, encoded: TextBlocks, indices: Tensor, device: torch.device
    ) -> tuple[float, int]:
        """Return a batch's summed cross-entropy in nats, and its number of predictions."""
        loss = self.loss(network, self.batch(encoded, indices, device), 0.0).cross_entropy
        return float(loss), self.count(encoded, indices)

    def metrics(self, encoded: TextBlocks, measured: Sequence[tuple[float, int]]) -> dict[str, float]:
        """Return the four metrics of the whole text; lower is better.

        `loss` is the mean cross-entropy in nats per token. `perplexity` is the exponential of `loss`, at most exp(700);
        a network that gives all tokens the same probability has the size of the vocabulary as its perplexity. `loss`
        and `perplexity` treat all unknown tokens as the same token.

        `bits_per_character` is the mean number of bits per predicted token, divided by `characters_per_token`.
        `bits_per_byte` divides the same mean by `bytes_per_token`. The bits of a token are its cross-entropy. For an
        unknown token, the bits that distinguish it from other unknown tokens are added (see `UnknownTokens`). With
        these bits, every model encodes the whole text, so models with different vocabularies are comparable.
        """
        count = sum(count for _, count in measured)
        loss = sum(loss for loss, _ in measured) / count
        bits_per_token = loss / math.log(2) + encoded.unknown_bits / count
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "bits_per_character": bits_per_token / encoded.characters_per_token,
            "bits_per_byte": bits_per_token / encoded.bytes_per_token,
        }

    def by_example(
        self, items: Sequence[Item], encoded: TextBlocks, measured: Sequence[tuple[float, int]], order: Tensor
    ) -> dict[str, ByExample | str]:
        """Return, for each metric, the reason why it has no contributions of examples; see `Task.by_example`."""
        del items, encoded, measured, order
        return dict.fromkeys(self.metric_names, "consecutive blocks of a text are not independent examples")

    def to_dict(self) -> dict[str, Any]:
        """Return this object as a JSON-able dict; `from_dict` is the inverse."""
        return {
            "vocabulary": self.vocabulary.to_dict(),
            "context": self.context,
            "unknown": self.unknown and self.unknown.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "LanguageModelling":
        """Build a `LanguageModelling` from a dict that `to_dict` returned."""
        unknown = values["unknown"]
        vocabulary = tokens_from_dict(values["vocabulary"])
        return cls(vocabulary, values["context"], UnknownTokens.from_dict(unknown) if unknown else None)
