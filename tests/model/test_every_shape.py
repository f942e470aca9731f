"""What every shape of network of every family promises, such as that masked labels and padding teach it nothing."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from model.config.whole import SHAPE_OF_DATA, parse
from model.networks.transformer import attention as attention_module
from model.tasks.choose import TASKS
from model.tasks.cross_entropy import NO_TARGET, summed_cross_entropy
from model.training.optimise import build_optimizers
from model.training.update import Update
from tests.model.conftest import of, small

CPU = torch.device("cpu")
FAMILIES = ("transformer", "recurrent", "convolutional")
TEXTS = ["the cat sat on the mat", "a dog", "the dog sat", "cats and dogs and mats"]
ITEMS = {
    "text_classification": [{"text": text, "label": label} for text, label in zip(TEXTS, "xyxy", strict=True)],
    "tagging": [{"words": text.split(), "tags": [word[0] for word in text.split()]} for text in TEXTS],
    "language_modelling": [{"text": text + "\n"} for text in TEXTS],
    "translation": [{"source": text, "target": text[::-1]} for text in TEXTS],
}
SETTINGS = {"data__min_count": 1, "model__dropout": 0.0, "training__lr": 0.01, "training__clip_norm": None}
OF_DATA = {"language_modelling": {"data__tokens": "words", "data__context": 6}, "tagging": {}}
ALIBI = {"positions": "alibi", "norm_order": "last"}
# Settings of each family's model, for each shape or for all.
VARIANTS = {
    "transformer": {"sinusoidal": {}, "rotary": {"positions": "rotary"}, "alibi": ALIBI},
    "convolutional": {"normed": {"filter_width": 5}, "not normed": {"weight_norm": False}},
    "recurrent_encoder": {"lstm": {"num_layers": 2}, "gru": {"cell": "gru", "bidirectional": False}},
    "recurrent_decoder": {"lstm": {"num_layers": 2}, "gru": {"cell": "gru"}},
    "recurrent_encoder_decoder": {
        "mlp": {"attention": "mlp", "attend": "before", "bridge": "mlp", "cell": "gru"},
        "vector": {"attention": "none", "bidirectional": False, "reverse_source": True},
        "dot": {"attention": "dot", "input_feeding": True, "num_layers": 2},
        "bilinear": {"bridge": "zero", "num_decoder_layers": 2},
    },
}
CASES = [
    pytest.param(data, family, of("model", settings), id=f"{data}-{family}-{name}")
    for data in ITEMS
    for family in FAMILIES
    for name, settings in VARIANTS.get(f"{family}_{SHAPE_OF_DATA[data]}", VARIANTS.get(family, {})).items()
]
POOLED = [("text_classification", family, {"model__pooling": each}) for family in FAMILIES for each in ("first", "max")]
NAMES = ("data", "family", "settings")
EVERY = pytest.mark.parametrize(NAMES, CASES)
FIRST = pytest.mark.parametrize(NAMES, {case.values[:2]: case for case in reversed(CASES)}.values())


def learn(data, family="transformer", **overrides):
    config = parse(small(data, family, **SETTINGS | OF_DATA.get(data, {"data__tokens": "words"}) | overrides))
    task = TASKS[data].learn(config, ITEMS[data], range(len(TEXTS)))
    return config, task, task.encode(ITEMS[data])


def build(data, family="transformer", **overrides):
    config, task, encoded = learn(data, family, **overrides)
    torch.manual_seed(0)
    return config, task, encoded, task.build(config)


def update_of(config, task, encoded, network, scales=False):
    scaler = torch.amp.GradScaler("cpu", enabled=scales)
    return Update(task, network, config.training, encoded, CPU, build_optimizers(network, config.training), scaler)


def updating(config, task, encoded, network):
    """Return a function that trains one step on all texts and returns the mean loss before it."""
    update = update_of(config, task, encoded, network)

    def step():
        total, count = update([torch.arange(len(encoded))], config.training.lr)
        return float(total) / count

    return step


def loss_and_gradients(task, encoded, network, indices=None, **options):
    network.zero_grad()
    indices = torch.arange(len(encoded)) if indices is None else indices
    loss = task.loss(network, task.batch(encoded, indices, CPU, **options), 0.1, 0.01)
    loss.objective.backward()
    gradients = [parameter.grad.clone() for parameter in network.parameters()]
    return [loss.objective.detach(), loss.cross_entropy, *gradients]


def inputs(task, encoded, indices=None):
    batch = task.batch(encoded, torch.arange(len(encoded)) if indices is None else indices, CPU)
    if hasattr(batch, "source"):
        return batch.source, batch.source_mask, batch.inputs
    return (batch.inputs, batch.attention_mask) if hasattr(batch, "attention_mask") else (batch.inputs,)


@pytest.mark.parametrize("positions", ["none", "sinusoidal", "learned", "rotary", "alibi"])
def test_every_position_norm_and_nonlinearity_builds_and_steps(positions):
    chosen = itertools.product(("layer", "rms"), ("first", "last"), ("relu", "gelu", "tanh", "silu", "swiglu"))
    for number, (norm, norm_order, nonlinearity) in enumerate(chosen):
        parts = {"positions": positions, "norm": norm, "norm_order": norm_order, "nonlinearity": nonlinearity}
        parts |= {"bias": number % 2 == 0, "qk_norm": number % 3 == 0, "num_key_heads": (None, 1, 3)[number % 4 % 3]}
        sizes = {"key_width": 6, "value_width": 5, "num_heads": 3}
        config, task, encoded, network = build("translation", **of("model", parts | sizes))
        before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
        assert math.isfinite(updating(config, task, encoded, network)()), parts
        for name, parameter in network.named_parameters():
            assert parameter.isfinite().all(), (name, parts)
        # What is looked up only for tokens that do not occur, and keys' biases, which softmax ignores, may stand still.
        moved = [name for name, old in before.items() if not torch.equal(old, network.get_parameter(name))]
        assert len(moved) > 0.9 * len(before), parts


@FIRST
def test_the_first_loss_is_the_log_of_the_number_of_answers_and_nearly_that_in_half_precision(data, family, settings):
    losses = []
    for precision in ("float32", "bfloat16"):
        _, task, encoded, network = made = build(data, family, **settings, training__precision=precision)
        answers, step = network(*inputs(task, encoded)).shape[-1], updating(*made)
        losses.append([step(), step()])
    assert abs(losses[0][0] - math.log(answers)) < 1
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


@pytest.mark.parametrize("is_tied", [False, True])
def test_a_head_that_learns_faster_begins_with_the_same_logits(is_tied):
    settings = {"model__tied_embeddings": is_tied}
    networks = [build("language_modelling", **settings, model__head_scale=scale)[3].eval() for scale in (1.0, 4.0)]
    torch.testing.assert_close(*(network(torch.arange(5)[None]) for network in networks))


def test_muon_takes_a_step_in_half_precision_without_clipping():
    made = build("text_classification", training__optimizer="muon")
    assert math.isfinite(update_of(*made, scales=True)([torch.arange(len(made[2]))], 0.01)[0])


class NoWaiting(TorchDispatchMode):
    """Refuses to read a number of a tensor, for which the CPU would wait until a GPU has computed it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten._local_scalar_dense.default, "the step waits for the device"
        return func(*args, **(kwargs or {}))


@FIRST
def test_a_step_never_waits_for_the_device(data, family, settings):
    if family == "recurrent" and data != "language_modelling":
        pytest.skip("torch packs sequences by their lengths on the CPU")
    settings = settings | {"model__dropout": 0.1, "training__clip_norm": 1.0}
    config, task, encoded, network = build(data, family, **settings)
    with NoWaiting():
        update_of(config, task, encoded, network)([torch.arange(1), torch.arange(1, len(encoded))], 0.001)


@FIRST
def test_accumulation_equals_the_big_batch_whatever_the_lengths(data, family, settings):
    weights = []
    every = torch.arange(len(learn(data, family, **settings)[2]))
    for batches in ([every], [every[:1], every[1:].flip(0)]):
        config, task, encoded, network = build(data, family, **settings, training__optimizer="sgd", training__lr=0.1)
        update_of(config, task, encoded, network)(batches, config.training.lr)
        weights.append(network.state_dict())
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("data", ITEMS)
def test_a_masked_label_gets_no_gradient_and_every_other_is_counted_and_does(data):
    _, task, encoded, network = build(data)
    for indices in (torch.arange(len(encoded)), torch.tensor([1])):
        batch = task.batch(encoded, indices, CPU)
        logits = network(*inputs(task, encoded, indices)).detach().requires_grad_()
        task.loss(lambda *_, logits=logits: logits, batch, 0.1).objective.backward()
        has_gradient = (logits.grad != 0).any(dim=-1)
        assert torch.equal(has_gradient, batch.targets != NO_TARGET)
        assert task.count(encoded, indices) == int(has_gradient.sum())


@pytest.mark.parametrize(NAMES, [case for case in CASES if case.values[0] == "language_modelling"])
def test_later_tokens_are_not_seen(data, family, settings):
    network = build(data, family, **settings)[3].eval()
    before, after = (network(torch.tensor([tokens])) for tokens in ([4, 5, 6, 7, 8], [4, 5, 6, 8, 7]))
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3], after[:, 3])


@pytest.mark.parametrize(NAMES, CASES + POOLED)
def test_a_padded_batch_has_the_gradient_of_its_examples_one_by_one(data, family, settings):
    _, task, encoded, network = build(data, family, **settings)
    gradients = []
    for batches in ([torch.arange(len(encoded))], torch.arange(len(encoded)).split(1)):
        network.zero_grad()
        for indices in batches:
            task.loss(network, task.batch(encoded, indices, CPU), 0.1).objective.backward()
        gradients.append([parameter.grad.clone() for parameter in network.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_keys_and_values_that_are_repeated_for_a_kernel_without_groups_give_what_groups_give(monkeypatch):
    _, task, encoded, network = build("translation", model__num_heads=4, model__num_key_heads=2)
    found = []
    for takes_groups in (True, False):
        monkeypatch.setattr(attention_module, "takes_groups", lambda *_, takes=takes_groups: takes)
        found.append(network(*inputs(task, encoded)))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_recomputed_activations_change_no_bit():
    weights = []
    for recomputes in (False, True):
        made = build("translation", model__dropout=0.2, training__activation_checkpointing=recomputes)
        torch.manual_seed(1)
        updating(*made)()
        weights.append(made[-1].state_dict())
    torch.testing.assert_close(*weights, rtol=0, atol=0)


def test_label_smoothing_mixes_in_the_uniform_distribution_and_the_z_loss_is_the_squared_log_of_the_denominator():
    logits, targets = torch.randn(5, 7), torch.tensor([1, NO_TARGET, 0, 6, 2])
    rows, known = logits[targets != NO_TARGET], targets[targets != NO_TARGET]
    smoothed = -((0.9 * nn.functional.one_hot(known, 7) + 0.1 / 7) * rows.log_softmax(-1)).sum()
    for z_loss in (0.0, 0.5):
        loss = summed_cross_entropy(logits, targets, 0.1, z_loss)
        torch.testing.assert_close(loss.objective, smoothed + z_loss * rows.logsumexp(-1).square().sum())
        torch.testing.assert_close(loss.cross_entropy, nn.functional.cross_entropy(rows, known, reduction="sum"))
