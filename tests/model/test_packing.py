"""Sequences laid end to end give the same losses and gradients as padded ones, and no layer computes padding."""

import pytest
import torch
from pydantic import ValidationError

from model.config.whole import parse
from model.data.batches import Ragged
from model.networks.transformer.feed_forward import FeedForward
from model.tasks import cross_entropy
from model.tasks.cross_entropy import NO_TARGET
from tests.model.conftest import run, small
from tests.model.test_every_shape import CPU, ITEMS, NoWaiting, build, loss_and_gradients, update_of, updating

PACKED = pytest.mark.parametrize("data", ["text_classification", "tagging", "translation"])
POSITIONS = ["none", "sinusoidal", "learned", "rotary", "alibi"]
SEQUENCES = [[1, 2, 3], [4], [5, 6]]


def test_sequences_are_laid_end_to_end_and_padded_where_attention_needs_it():
    ragged = Ragged.of(SEQUENCES)
    tokens, packing = ragged.pack(torch.tensor([2, 0, 1]), CPU)
    assert tokens.tolist() == [[5, 6, 1, 2, 3, 4]]
    assert packing.positions.tolist() == [0, 1, 0, 1, 2, 0]
    padded, mask = ragged.gather(torch.tensor([2, 0, 1]))
    assert torch.equal(packing.pad(tokens), padded)
    assert torch.equal(packing.attention_mask, mask)
    assert torch.equal(packing.pack(padded), tokens)


def test_targets_are_the_inputs_one_place_on():
    ragged = Ragged.of([[1, 2, 3], [4, 5]])
    assert ragged.pack(torch.arange(2), CPU, without_last=True)[0].tolist() == [[1, 2, 4]]
    assert ragged.pack(torch.arange(2), CPU, without_first=True)[0].tolist() == [[2, 3, 5]]


def test_sequences_of_one_length_need_no_packing():
    tokens, packing = Ragged.of(SEQUENCES).pack(torch.tensor([0, 0]), CPU)
    assert (tokens.tolist(), packing) == ([[1, 2, 3], [1, 2, 3]], None)


@PACKED
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("more", [{}, {"model__num_key_heads": 1, "model__key_width": 6, "model__norm_order": "last"}])
def test_a_packed_batch_has_the_loss_and_gradients_of_the_padded_one(data, positions, more):
    _, task, encoded, network = build(data, model__positions=positions, **more)
    # All, and those of equal lengths on neither, one or both sides.
    for indices in (torch.arange(len(encoded)), torch.tensor([3, 0]), torch.tensor([2, 2, 1]), torch.tensor([1])):
        padded = loss_and_gradients(task, encoded, network, indices)
        packed = loss_and_gradients(task, encoded, network, indices, packed=True)
        torch.testing.assert_close(packed, padded, rtol=1e-5, atol=1e-6)


def test_only_one_side_of_a_pair_may_differ_in_length():
    _, task, _, network = build("translation")
    for texts in ([("a cat", "the cat sat"), ("a dog", "dog")], [("a", "the cat"), ("the dog sat", "a mat")]):
        encoded = task.encode([{"source": source, "target": target} for source, target in texts])
        both = [loss_and_gradients(task, encoded, network, torch.arange(2), packed=packed) for packed in (False, True)]
        torch.testing.assert_close(*both, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_packing_changes_no_pooled_vector(pooling):
    _, task, encoded, network = build("text_classification", model__pooling=pooling)
    indices = torch.arange(len(encoded))
    both = [loss_and_gradients(task, encoded, network, indices, packed=packed) for packed in (False, True)]
    torch.testing.assert_close(*both, rtol=1e-5, atol=1e-6)


@PACKED
def test_no_layer_computes_padding(data):
    _, task, encoded, network = build(data)
    batch = task.batch(encoded, torch.arange(len(encoded)), CPU, packed=True)
    seen = []
    for module in network.modules():
        if isinstance(module, FeedForward):
            module.register_forward_hook(lambda _module, args, _output: seen.append(args[0].shape[:2].numel()))
    task.loss(network, batch, 0.0)
    tokens = {batch.source.numel(), batch.inputs.numel()} if data == "translation" else {len(batch.inputs[0])}
    assert set(seen) == tokens
    assert (batch.targets != NO_TARGET).all()


@PACKED
def test_a_packed_step_never_waits_for_the_device(data):
    config, task, encoded, network = build(data, training__batching="packed", training__clip_norm=1.0)
    with NoWaiting():
        update_of(config, task, encoded, network)([torch.arange(1), torch.arange(1, len(encoded))], 0.001)


@PACKED
@pytest.mark.parametrize("settings", [{}, {"training__activation_checkpointing": True}])
def test_a_packed_training_has_the_losses_of_the_shuffled_one(data, settings, monkeypatch):
    monkeypatch.setattr(cross_entropy, "LARGEST_LOGITS", 50)
    losses = []
    for batching in ("shuffled", "packed"):
        config, task, encoded, network = build(data, training__batching=batching, **settings)
        step = updating(config, task, encoded, network)
        losses.append([step() for _ in range(5)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_a_whole_packed_training_has_the_curve_of_the_shuffled_one(fold, reviews):
    files = {"data__path": str(reviews), "data__min_count": 1, "model__dropout": 0.0, "training__batch_size": 16}
    curves = [
        run(fold(small("text_classification", training__batching=batching, **files), size=60))[0]
        for batching in ("shuffled", "packed")
    ]
    for shuffled, packed in zip(*curves, strict=True):
        assert packed["train_loss"] == pytest.approx(shuffled["train_loss"], rel=1e-5)
        assert packed["loss"] == pytest.approx(shuffled["loss"], rel=1e-5)


@pytest.mark.slow
@PACKED
def test_a_compiled_network_takes_packed_batches_of_any_size(data):
    torch.compiler.reset()
    _, task, encoded, network = build(data)
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    for indices in (torch.arange(len(ITEMS[data])), torch.tensor([3, 0, 1]), torch.tensor([0, 1])):
        batch = task.batch(encoded, indices, CPU, packed=True)
        torch.testing.assert_close(tuple(task.loss(compiled, batch, 0.1)), tuple(task.loss(network, batch, 0.1)))


@pytest.mark.parametrize(
    ("data", "model", "told"),
    [
        ("text_classification", "recurrent_encoder", "Transformer's attention"),
        ("digits", "encoder", "the same length: choose shuffled"),
        ("language_modelling", "decoder", "the same length: choose shuffled"),
    ],
)
def test_packed_is_refused_where_it_has_no_effect(data, model, told):
    with pytest.raises(ValidationError, match=told):
        parse(small(data, model, training__batching="packed"))
