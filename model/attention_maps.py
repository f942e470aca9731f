"""Attention maps: what each head attends to while a trained network reads one input."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from model.checkpoint import Checkpoint, load_checkpoint
from model.data.surrogates import refuse_surrogates
from model.networks.bodies import KeepsWeights
from model.predict import CPU, predict_inputs, refuse_rows
from model.tasks.classification import Classification
from model.tasks.language_modelling import LanguageModelling
from model.tasks.sequence_to_sequence import SequenceToSequence
from model.tasks.tagging import Tagging

Axes = dict[str, tuple[list[str], list[str]]]
NAMES = {"encoder": "encoder", "decoder": "decoder", "cross": "cross-attention"}


@torch.no_grad()
def attention_maps(checkpoint_dir: str, text: str, target: str | None) -> list[dict[str, Any]]:
    """Return the attention maps of one input; see `model.objective.attention`."""
    checkpoint = load_checkpoint(checkpoint_dir)
    refuse_rows(checkpoint)
    if not text.strip():
        raise ValueError("input: is empty; must hold some text")
    if target is not None and not isinstance(checkpoint.task, SequenceToSequence):
        name = checkpoint.config.data.name
        raise ValueError(f"target: a model of '{name}' has none; leave it out")
    if target is not None and not target.strip():
        raise ValueError("target: is empty; must hold some text, or be left out")
    refuse_surrogates(text, "input")
    refuse_surrogates(target or "", "target")
    if target is None and isinstance(checkpoint.task, SequenceToSequence):
        target = predict_inputs(checkpoint_dir, [text], {})[0]
    attentions = [attention for _, _, attention in _attentions(checkpoint.network, NAMES)]
    if not attentions:
        raise ValueError("input: this network has no attention to show")
    with keep_weights(attentions):
        axes = _read(checkpoint, text, target or "")
        return list(_maps(checkpoint.network, axes))


@contextmanager
def keep_weights(attentions: Sequence[KeepsWeights]) -> Iterator[None]:
    """Make every attention keep its weights in `kept_weights`, one per call, inside the context."""
    for attention in attentions:
        attention.kept_weights = []
    try:
        yield
    finally:
        for attention in attentions:
            attention.kept_weights = None


def _read(checkpoint: Checkpoint, text: str, target: str) -> Axes:
    """Run the network on the input; return by name of the attention the tokens that attend and those attended to."""
    task, network = checkpoint.task, checkpoint.network
    if isinstance(task, Classification):
        assert task.vocabulary is not None
        labelled = task.batch(task.encode([{"text": text, "label": ""}]), torch.tensor([0]), CPU)
        network(labelled.inputs, None)
        names = task.vocabulary.names(labelled.inputs[0].tolist())
        return {"encoder": (names, names)}
    if isinstance(task, Tagging):
        words = text.split()[: task.max_length]
        tagged = task.batch(task.encode([{"words": words, "tags": [""] * len(words)}]), torch.tensor([0]), CPU)
        network(tagged.inputs, None)
        return {"encoder": (words, words)}
    if isinstance(task, LanguageModelling):
        numbers = task.vocabulary.encode(text)[: task.context]
        if not numbers:
            raise ValueError(f"input: holds no {task.vocabulary.unit}; must hold some")
        network(torch.tensor([numbers]))
        names = task.vocabulary.names(numbers)
        return {"decoder": (names, names)}
    assert isinstance(task, SequenceToSequence)
    pair = task.batch(task.encode([{"source": text, "target": target}]), torch.tensor([0]), CPU)
    network(pair.source, None, pair.inputs)
    source = task.source_tokens.names(pair.source[0].tolist())
    targets = task.target_tokens.names(pair.inputs[0].tolist())
    return {"encoder": (source, source), "decoder": (targets, targets), "cross": (targets, source)}


def _maps(network: nn.Module, axes: Axes) -> Iterator[dict[str, Any]]:
    """Yield the kept weights of one input, layer by layer: first encoder, then decoder, then cross-attention."""
    for name, place, attention in _attentions(network, axes):
        rows, columns = axes[name]
        assert attention.kept_weights is not None
        # One call, or one for each token.
        heads = _heads(torch.cat(attention.kept_weights, dim=2))
        yield {"name": f"{NAMES[name]} layer {place}", "rows": rows, "columns": columns, "heads": heads}


def _attentions(network: nn.Module, names: Iterable[str]) -> Iterator[tuple[str, int, KeepsWeights]]:
    """Yield the attentions of these names, each with its name and layer."""
    for name in names:
        body: Any = getattr(network, "encoder" if name == "encoder" else "decoder", None)
        if body is not None:
            found = body.source_attentions() if name == "cross" else body.attentions()
            yield from ((name, place, attention) for place, attention in enumerate(found))


def _heads(weights: Tensor) -> list[list[list[float]]]:
    """Return (1, heads, time, keys) as lists, in double precision so that rounding to JSON keeps each row's sum."""
    heads: list[list[list[float]]] = weights[0].double().tolist()
    return heads
