"""Batches by length, packed ones without padding, and logits in chunks: another cost, the same loss and gradients."""

import pytest
import torch

from model.data.batches import Ragged, batches_by_length, shuffled_batches
from model.networks.roles import LinearHead
from model.networks.transformer.feed_forward import FeedForward
from model.tasks import cross_entropy
from model.tasks.cross_entropy import NO_TARGET
from model.training.compiled import CompiledForward
from tests.model.test_every_shape import CPU, FAMILIES, NoWaiting, build, loss_and_gradients, update_of

PACKED = pytest.mark.parametrize("data", ["text_classification", "tagging", "translation"])
TOKENS = pytest.mark.parametrize("data", ["language_modelling", "translation"])
SEQUENCES = Ragged.of([[1, 2, 3], [4], [5, 6]])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("batch_tokens", [None, 30])
def test_batches_by_length_hold_every_example_once_within_their_limits_and_are_drawn_anew(batch_tokens):
    lengths = torch.randint(1, 40, (101,), generator=seeded())
    epochs = [batches_by_length(lengths, 8, batch_tokens, seeded(seed)) for seed in range(3)]
    for batches in epochs:
        assert sorted(torch.cat(batches).tolist()) == list(range(101))
        assert all(len(batch) <= 8 for batch in batches)
        if batch_tokens:
            assert all(len(batch) == 1 or len(batch) * max(lengths[batch]) <= 30 for batch in batches)
    assert len({tuple(sorted(map(len, batches))) for batches in epochs}) == 1
    one, other, _ = ({frozenset(batch.tolist()) for batch in batches if len(batch) > 1} for batches in epochs)
    assert len(one & other) < (0.5 if batch_tokens else 0.1) * len(one)


def test_batches_by_length_pad_less_than_shuffled_ones_and_mix_lengths():
    lengths = torch.randint(1, 40, (2000,), generator=seeded())
    batches, shuffled = batches_by_length(lengths, 10, None, seeded()), shuffled_batches(2000, 10, seeded())
    padded = [sum(len(batch) * int(lengths[batch].max()) for batch in each) for each in (batches, shuffled)]
    assert padded[0] < 0.7 * padded[1]
    # Sorted as a whole, 200 batches of 39 lengths would hold one length each.
    spread = [int(lengths[batch].max() - lengths[batch].min()) for batch in batches]
    assert 2 < sum(spread) / len(spread) < 10


def test_sequences_are_padded_at_their_end_or_laid_end_to_end_unless_all_are_of_one_length():
    padded, mask = SEQUENCES.gather(torch.tensor([2, 0, 1]))
    assert padded.tolist() == [[5, 6, 0], [1, 2, 3], [4, 0, 0]]
    assert mask.tolist() == [[True, True, False], [True] * 3, [True, False, False]]
    tokens, packing = SEQUENCES.pack(torch.tensor([2, 0, 1]), CPU)
    assert (tokens.tolist(), packing.positions.tolist()) == ([[5, 6, 1, 2, 3, 4]], [0, 1, 0, 1, 2, 0])
    assert torch.equal(packing.pad(tokens), padded)
    tokens, packing = SEQUENCES.pack(torch.tensor([0, 0]), CPU)
    assert (tokens.tolist(), packing) == ([[1, 2, 3], [1, 2, 3]], None)


def packed_equals_padded(task, encoded, network, indices=None):
    both = [loss_and_gradients(task, encoded, network, indices, packed=packed) for packed in (False, True)]
    torch.testing.assert_close(*both, rtol=1e-5, atol=1e-6)


@PACKED
@pytest.mark.parametrize("positions", ["none", "sinusoidal", "learned", "rotary", "alibi"])
@pytest.mark.parametrize("more", [{}, {"model__num_key_heads": 1, "model__key_width": 6, "model__norm_order": "last"}])
def test_a_packed_batch_has_the_loss_and_gradients_of_the_padded_one(data, positions, more):
    _, task, encoded, network = build(data, model__positions=positions, **more)
    for indices in (None, torch.tensor([3, 0]), torch.tensor([2, 2, 1]), torch.tensor([1])):
        packed_equals_padded(task, encoded, network, indices)


@pytest.mark.parametrize("pooling", ["first", "max"])
def test_packing_changes_no_pooled_vector(pooling):
    packed_equals_padded(*build("text_classification", model__pooling=pooling)[1:])


@PACKED
def test_no_layer_computes_padding_of_a_packed_batch_and_its_step_never_waits_for_the_device(data):
    config, task, encoded, network = build(data, training__batching="packed", training__clip_norm=1.0)
    batch = task.batch(encoded, torch.arange(len(encoded)), CPU, packed=True)
    counts = set()
    for module in network.modules():
        if isinstance(module, FeedForward):
            module.register_forward_hook(lambda _module, args, _output: counts.add(args[0].shape[:2].numel()))
    task.loss(network, batch, 0.0)
    assert counts == ({batch.source.numel(), batch.inputs.numel()} if data == "translation" else {len(batch.inputs[0])})
    assert (batch.targets != NO_TARGET).all()
    with NoWaiting():
        update_of(config, task, encoded, network)([torch.arange(1), torch.arange(1, len(encoded))], 0.001)


@TOKENS
@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_of_logits_have_the_loss_and_gradients_of_the_whole(data, family, monkeypatch):
    _, task, encoded, network = build(data, family, model__tied_embeddings=family == "transformer")
    network.double()
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    whole = loss_and_gradients(task, encoded, network)
    for limit in (1, 30, 100):
        monkeypatch.setattr(cross_entropy, "LARGEST_LOGITS", limit)
        torch.testing.assert_close(loss_and_gradients(task, encoded, network), whole, rtol=1e-10, atol=1e-10)


@TOKENS
def test_an_evaluation_of_a_compiled_network_in_half_precision_takes_chunks_too(data, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda forward, **_: forward)
    config, task, encoded, network = build(data, training__compile=True)
    batch, losses = task.batch(encoded, torch.arange(len(encoded)), CPU), []
    for limit in (2**26, 100):
        monkeypatch.setattr(cross_entropy, "LARGEST_LOGITS", limit)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), CompiledForward(network, config.training).in_use():
            losses.append(float(task.loss(network.eval(), batch, 0.0).cross_entropy))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@TOKENS
def test_no_more_logits_than_the_limit_exist_at_once(data, monkeypatch):
    _, task, encoded, network = build(data)
    loss_of, rows = cross_entropy.summed_cross_entropy, []
    monkeypatch.setattr(cross_entropy, "summed_cross_entropy", lambda *of: rows.append(len(of[0])) or loss_of(*of))
    for limit in (2**26, 3 * network.head.own.out_features):
        monkeypatch.setattr(cross_entropy, "LARGEST_LOGITS", limit)
        loss_and_gradients(task, encoded, network)
    whole, *chunks = rows
    assert (max(chunks), sum(chunks)) == (3, whole)


def test_many_predictions_have_finite_gradients_in_float16(monkeypatch):
    """20,000 times 8 is more than float16 has, and no smaller factor of the loss would help."""
    monkeypatch.setattr(cross_entropy, "LARGEST_LOGITS", 40_000)
    head, decoded = LinearHead(2, 2, bias=False), torch.full((1, 20_000, 2), 8.0, requires_grad=True)
    losses = cross_entropy.ChunkedCrossEntropy(torch.zeros(20_000, dtype=torch.long), 2, 0.0, 0.0)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
    with torch.autocast("cpu", torch.float16):
        loss = losses(decoded, head)
    (loss.objective / 20_000).backward()
    # Every prediction is wrong, and sure of it: the softmax less the target is (-1, 1).
    torch.testing.assert_close(head.weight.grad, torch.tensor([[-8.0, -8.0], [8.0, 8.0]]), rtol=1e-3, atol=0)
    torch.testing.assert_close(decoded.grad, torch.full((1, 20_000, 2), 2 / 20_000), rtol=1e-3, atol=0)
