"""Computes the predictions of a trained network for new inputs."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from model.checkpoint import Checkpoint, load_checkpoint
from model.data.batches import batches_by_length
from model.data.surrogates import refuse_surrogates
from model.decoding.sample import sample, uniform_draws
from model.decoding.sampling import Sampling
from model.networks.encoder_decoder import EncoderDecoder
from model.networks.language_model import LanguageModel
from model.tasks.classification import Classification
from model.tasks.language_modelling import LanguageModelling
from model.tasks.sequence_to_sequence import SequenceToSequence
from model.tasks.tagging import Tagging
from model.training.device import choose_device
from model.training.numerics import numerics

_log = logging.getLogger("hpo.model")  # a child of the logger `hpo`, because the command line prints its warnings

BATCH_SIZE = 64


@torch.no_grad()
def predict_inputs(checkpoint_dir: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
    """Return one prediction per input; see `model.objective.predict`."""
    checkpoint = load_on_device(checkpoint_dir)
    if not inputs:
        raise ValueError("inputs: must hold at least one input, given none")
    # Compute as in the evaluations. Otherwise recurrent cells on a GPU would use tf32.
    with numerics(checkpoint.config.training, checkpoint.device):
        return _predicted(checkpoint, inputs, options)


def _predicted(checkpoint: Checkpoint, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
    """Check the inputs and the options, and return one prediction per input."""
    task = type(checkpoint.task)
    if any(not isinstance(each, str) for each in inputs):
        return _labels_of_rows(checkpoint, inputs, options)
    refuse_rows(checkpoint)
    known = {field.name for field in fields(Sampling)} if task is LanguageModelling else set()
    for name in options:
        if name not in known:
            hint = f"the options are {', '.join(sorted(known))}" if known else "only language models have options"
            raise ValueError(f"{name}: has no effect on a model with data={checkpoint.config.data.name}; {hint}")
    for number, text in enumerate(inputs, start=1):
        # A language model can continue white space.
        if not (text if task is LanguageModelling else text.strip()):
            raise ValueError(f"input {number}: must not be empty; give some text")
        refuse_surrogates(text, f"input {number}")
    warn_of_cut(checkpoint, inputs)
    return _PREDICTORS[task](checkpoint, inputs, options)


def load_on_device(checkpoint_dir: str) -> Checkpoint:
    """Load a checkpoint; the network is on the GPU if this machine has a GPU and training.device is not cpu."""
    checkpoint = load_checkpoint(checkpoint_dir)
    checkpoint.network.to(choose_device("cpu" if checkpoint.config.training.device == "cpu" else "auto"))
    return checkpoint


def warn_of_cut(checkpoint: Checkpoint, inputs: Sequence[str]) -> None:
    """Log a warning if some inputs have more tokens than the network reads.

    There is no warning for taggers, which read long sentences in pieces, or for language models, which need only the
    end of a prompt.
    """
    task = checkpoint.task
    if not isinstance(task, SequenceToSequence | Classification):
        return
    tokens = task.source_tokens if isinstance(task, SequenceToSequence) else task.vocabulary
    assert tokens is not None  # None only for rows of numbers
    lengths = [len(tokens.encode(text)) for text in inputs]
    cut = [length for length in lengths if length > task.max_length]
    if cut:
        _log.warning(
            "%d of %d inputs are cut to the first data.max_length=%d tokens (the longest, input %d, has %d tokens)",
            len(cut), len(inputs), task.max_length, lengths.index(max(cut)) + 1, max(cut),
        )  # fmt: skip


def refuse_rows(checkpoint: Checkpoint) -> None:
    """Raise ValueError for a network that reads rows of numbers instead of text."""
    if isinstance(checkpoint.task, Classification) and checkpoint.task.vocabulary is None:
        raise ValueError(
            f"input: must not be a text, because a model with data={checkpoint.config.data.name} reads rows of numbers"
        )


def _labels(checkpoint: Checkpoint, inputs: Sequence[str], _options: Mapping[str, Any]) -> list[str]:
    task = checkpoint.task
    assert isinstance(task, Classification)
    return _likeliest(checkpoint, task, [{"text": text, "label": ""} for text in inputs])


def _labels_of_rows(checkpoint: Checkpoint, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
    """Return the label of each input.

    An input is a list of `max_length` rows of `features` numbers each, or a flat list of all these numbers.
    """
    task = checkpoint.task
    if not isinstance(task, Classification) or task.features is None:
        raise ValueError(f"inputs: must be texts for a model with data={checkpoint.config.data.name}, given numbers")
    if options:
        raise ValueError(f"{next(iter(options))}: has no effect on a model with data={checkpoint.config.data.name}")
    shape = (task.max_length, task.features)
    images = []
    for number, rows in enumerate(inputs, start=1):
        try:
            image = torch.tensor(rows, dtype=torch.float32).reshape(shape)
            if not image.isfinite().all():
                raise ValueError("not finite")
            images.append(image.tolist())
        except (ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise ValueError(
                f"input {number}: must hold {shape[0] * shape[1]} finite numbers, as a list of {shape[0]} rows of "
                f"{shape[1]} numbers or as a flat list"
            ) from error
    return _likeliest(checkpoint, task, [{"rows": image, "label": ""} for image in images])


def _likeliest(checkpoint: Checkpoint, task: Classification, items: Sequence[dict[str, Any]]) -> list[str]:
    encoded = task.encode(items)

    def predict(indices: Tensor) -> list[str]:
        batch = task.batch(encoded, indices, checkpoint.device)
        numbers = checkpoint.network(batch.inputs, batch.attention_mask).argmax(dim=-1).tolist()
        return [task.classes[number] for number in numbers]

    return _in_batches(encoded.lengths, predict)


def _tags(checkpoint: Checkpoint, inputs: Sequence[str], _options: Mapping[str, Any]) -> list[str]:
    task = checkpoint.task
    assert isinstance(task, Tagging)
    sentences = [text.split() for text in inputs]
    encoded = task.encode([{"words": words, "tags": [""] * len(words)} for words in sentences])

    def predict(indices: Tensor) -> list[list[str]]:
        batch = task.batch(encoded, indices, checkpoint.device)
        rows = checkpoint.network(batch.inputs, batch.attention_mask).argmax(dim=-1).tolist()
        lengths = encoded.lengths[indices].tolist()
        return [[task.tags[n] for n in row[:length]] for row, length in zip(rows, lengths, strict=True)]

    # A long sentence is encoded in consecutive pieces, so joining the tags of all pieces gives one tag per word, in
    # order.
    tags = iter([tag for piece in _in_batches(encoded.lengths, predict) for tag in piece])
    return [" ".join(next(tags) for _ in words) for words in sentences]


def _targets(checkpoint: Checkpoint, inputs: Sequence[str], _options: Mapping[str, Any]) -> list[str]:
    task, network = checkpoint.task, checkpoint.network
    assert isinstance(task, SequenceToSequence)
    assert isinstance(network, EncoderDecoder)
    encoded = task.encode([{"source": text, "target": ""} for text in inputs])
    return _in_batches(
        encoded.lengths,
        lambda indices: task.predict(network, task.batch(encoded, indices, checkpoint.device)),
    )


def _continuations(checkpoint: Checkpoint, inputs: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    task, network, settings = checkpoint.task, checkpoint.network, Sampling(**options)
    assert isinstance(task, LanguageModelling)
    assert isinstance(network, LanguageModel)
    prompts = [task.vocabulary.encode(text) for text in inputs]
    for number, prompt in enumerate(prompts, start=1):
        if not prompt:
            raise ValueError(f"input {number}: must hold {task.vocabulary.unit}, given none")
    draws = torch.stack([uniform_draws(settings.seed, n, settings.max_tokens) for n in range(len(inputs))])

    def predict(indices: Tensor) -> list[str]:
        chosen = [prompts[index] for index in indices.tolist()]
        rows = sample(network, chosen, draws[indices].to(checkpoint.device), task.context, settings)
        return [task.vocabulary.decode(row) for row in rows]

    return _in_batches(torch.tensor([len(prompt) for prompt in prompts]), predict)


def _in_batches(lengths: Tensor, predict: Callable[[Tensor], Iterable[Any]]) -> list[Any]:
    """Call `predict` on batches of inputs with similar lengths, and return the results in the order of the inputs."""
    results: list[Any] = [None] * len(lengths)
    for indices in batches_by_length(lengths, BATCH_SIZE):
        for index, result in zip(indices.tolist(), predict(indices), strict=True):
            results[index] = result
    return results


_PREDICTORS: dict[type, Callable[[Checkpoint, Sequence[str], Mapping[str, Any]], list[str]]] = {
    Classification: _labels,
    Tagging: _tags,
    SequenceToSequence: _targets,
    LanguageModelling: _continuations,
}
