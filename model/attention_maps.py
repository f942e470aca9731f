"""Attention maps: the weights of each attention head while a trained network reads one input."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from model.checkpoint import Checkpoint
from model.data.surrogates import refuse_surrogates
from model.data.tokens.vocabulary import START
from model.networks.bodies import StoresWeights
from model.networks.encoder_decoder import EncoderDecoder
from model.predict import load_on_device, refuse_rows, warn_of_cut
from model.tasks.classification import Classification
from model.tasks.language_modelling import LanguageModelling
from model.tasks.sequence_to_sequence import SequenceToSequence
from model.tasks.tagging import Tagging

_log = logging.getLogger("hpo.model")  # a child of the logger `hpo`, because the command line prints its warnings

NAMES = {"encoder": "encoder", "decoder": "decoder", "cross": "cross-attention"}


@torch.no_grad()
def attention_maps(checkpoint_dir: str, text: str, target: str | None) -> list[dict[str, Any]]:
    """Return the attention maps for one input; see `model.objective.attention`, also for errors."""
    checkpoint = load_on_device(checkpoint_dir)
    refuse_rows(checkpoint)
    if not text.strip():
        raise ValueError("input: must not be empty; give some text")
    if target is not None and not isinstance(checkpoint.task, SequenceToSequence):
        name = checkpoint.config.data.name
        raise ValueError(f"target: has no effect on a model with data={name}; leave the target out")
    if target is not None and not target.strip():
        raise ValueError("target: must not be empty; give some text, or leave the target out")
    refuse_surrogates(text, "input")
    refuse_surrogates(target or "", "target")
    warn_of_cut(checkpoint, [text])
    attentions = [attention for _, _, attention in _attentions(checkpoint.network, NAMES)]
    if not attentions:
        raise ValueError("input: this network has no attention; give a checkpoint of a network with attention")
    maps: list[dict[str, Any]] = []
    for reading in _readings(checkpoint, text, target):
        with store_weights(attentions):
            checkpoint.network(*reading.inputs)
            maps += _maps(checkpoint.network, reading)
    return maps


@contextmanager
def store_weights(attentions: Sequence[StoresWeights]) -> Iterator[None]:
    """Make each attention module store its attention weights within the `with` block.

    Each call of a module appends one tensor to the module's `stored_weights`. At the end of the `with` block,
    `stored_weights` becomes None again.
    """
    for attention in attentions:
        attention.stored_weights = []
    try:
        yield
    finally:
        for attention in attentions:
            attention.stored_weights = None


@dataclass(frozen=True)
class Reading:
    """One forward pass of a network over an input, or over a piece of a long input.

    Attributes:
        inputs: the arguments of the network.
        axes: a dict from each kind of attention (a key of NAMES) to its query tokens and its key tokens.
        piece: a text that says which piece of the input is read; empty = the whole input.
    """

    inputs: tuple[Tensor | None, ...]
    axes: dict[str, tuple[list[str], list[str]]]
    piece: str = ""


def _readings(checkpoint: Checkpoint, text: str, target: str | None) -> list[Reading]:
    """Return the forward passes for an input.

    A sentence to tag has one pass for each of its pieces. Any other input has one pass.
    """
    task, device, first = checkpoint.task, checkpoint.device, torch.tensor([0])
    if isinstance(task, Classification):
        assert task.vocabulary is not None
        labelled = task.batch(task.encode([{"text": text, "label": ""}]), first, device)
        names = task.vocabulary.names(labelled.inputs[0].tolist())
        return [Reading((labelled.inputs, None), {"encoder": (names, names)})]
    if isinstance(task, Tagging):
        words = text.split()
        tagged = task.encode([{"words": words, "tags": [""] * len(words)}])
        readings, begin = [], 0
        for number, end in enumerate(tagged.lengths.cumsum(0).tolist()):
            piece = f", words {begin + 1} to {end}" if len(tagged) > 1 else ""
            inputs = task.batch(tagged, torch.tensor([number]), device).inputs
            readings.append(Reading((inputs, None), {"encoder": (words[begin:end], words[begin:end])}, piece))
            begin = end
        return readings
    if isinstance(task, LanguageModelling):
        # The network reads the last tokens, as it does when `predict` draws the first token.
        numbers = task.vocabulary.encode(text)[-task.context :]
        names = task.vocabulary.names(numbers)
        return [Reading((torch.tensor([numbers], device=device),), {"decoder": (names, names)})]
    assert isinstance(task, SequenceToSequence)
    if (length := len(task.target_tokens.encode(target or ""))) > task.max_length:
        _log.warning("the target is cut to the first data.max_length=%d of its %d tokens", task.max_length, length)
    pair = task.batch(task.encode([{"source": text, "target": target or ""}]), first, device)
    decoded = pair.inputs
    if target is None:
        # Use the predicted token numbers, because their text could be tokenized differently. If the target has no END,
        # leave out its last token, which the decoder predicts but never reads.
        assert isinstance(checkpoint.network, EncoderDecoder)
        (predicted,) = task.predict_tokens(checkpoint.network, pair)
        decoded = torch.tensor([[START, *predicted[: task.max_length]]], device=device)
    source = task.source_tokens.names(pair.source[0].tolist())
    targets = task.target_tokens.names(decoded[0].tolist())
    axes = {"encoder": (source, source), "decoder": (targets, targets), "cross": (targets, source)}
    return [Reading((pair.source, None, decoded), axes)]


def _maps(network: nn.Module, reading: Reading) -> Iterator[dict[str, Any]]:
    """Yield a map of the stored weights for each layer: encoder layers, decoder layers, then cross-attention layers."""
    for name, place, attention in _attentions(network, reading.axes):
        rows, columns = reading.axes[name]
        assert attention.stored_weights is not None
        # A pass calls an attention module once, or once per token.
        heads = torch.cat(attention.stored_weights, dim=2)[0].double().tolist()
        yield {"name": f"{NAMES[name]} layer {place}{reading.piece}", "rows": rows, "columns": columns, "heads": heads}


def _attentions(network: nn.Module, names: Iterable[str]) -> Iterator[tuple[str, int, StoresWeights]]:
    """Yield three values for each attention module of the kinds `names`: the kind, the layer's number, and the module.

    A kind is a key of NAMES, such as `encoder`.
    """
    for name in names:
        body: Any = getattr(network, "encoder" if name == "encoder" else "decoder", None)
        if body is not None:
            modules = body.source_attentions() if name == "cross" else body.attentions()
            yield from ((name, place, attention) for place, attention in enumerate(modules))
