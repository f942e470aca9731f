"""What every shape of network promises: it builds from any parts and steps, and masked labels teach it nothing."""

import itertools
import math

import pytest
import torch

from model.config.whole import parse
from model.tasks.choose import TASKS
from model.tasks.language_modelling import NO_TARGET
from model.training.optimise import build_optimizers
from model.training.update import Update
from tests.model.conftest import small

CPU = torch.device("cpu")
TEXTS = ["the cat sat on the mat", "a dog", "the dog sat", "cats and dogs and mats"]
ITEMS = {
    "text_classification": [{"text": text, "label": label} for text, label in zip(TEXTS, "xyxy", strict=True)],
    "tagging": [{"words": text.split(), "tags": [word[0] for word in text.split()]} for text in TEXTS],
    "language_modelling": [{"text": text + "\n"} for text in TEXTS],
    "translation": [{"source": text, "target": text[::-1]} for text in TEXTS],
}
SHAPES = {
    "text_classification": "encoder",
    "tagging": "encoder",
    "language_modelling": "decoder",
    "translation": "encoder_decoder",
}
SETTINGS = {"data__min_count": 1, "model__dropout": 0.0}
WORDS = {"data__tokens": "words"}
LEARNING = {"training__lr": 0.01, "training__clip_norm": None}
EVERY = pytest.mark.parametrize("data", SHAPES)
# One prediction a token: only with these can a part of the labels be masked.
EVERY_TOKEN = pytest.mark.parametrize("data", ["tagging", "language_modelling", "translation"])


def learn(data, **overrides):
    """Configuration, task and encoded texts."""
    tokens = {} if data == "tagging" else WORDS
    context = {"data__context": 6} if data == "language_modelling" else {}
    config = parse(small(data, SHAPES[data], **(SETTINGS | LEARNING | tokens | context | overrides)))
    task = TASKS[data].learn(config, ITEMS[data], range(len(TEXTS)))
    return config, task, task.encode(ITEMS[data])


def build(data, seed=0, **overrides):
    config, task, encoded = learn(data, **overrides)
    torch.manual_seed(seed)
    return config, task, encoded, task.build(config)


def updating(config, task, encoded, network):
    """One call = one step of the trainer on all texts; gives the mean loss before it."""
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    update = Update(task, network, config.training, encoded, CPU, build_optimizers(network, config.training), scaler)
    everything = [torch.arange(len(encoded))]

    def step():
        total, count = update(everything, config.training.lr)
        return float(total) / count

    return step


def parts():
    """Every third of all combinations, in which every two parts meet; biases on and off in turns."""
    positions = ("none", "sinusoidal", "learned", "rotary", "alibi")
    nonlinearities = ("relu", "gelu", "tanh", "silu", "swiglu")
    every = itertools.product(positions, ("layer", "rms"), ("first", "last"), nonlinearities)
    for number, (position, norm, norm_order, nonlinearity) in enumerate(itertools.islice(every, 0, None, 3)):
        yield {
            "model__positions": position, "model__norm": norm, "model__norm_order": norm_order,
            "model__nonlinearity": nonlinearity, "model__bias": number % 2 == 0,
        }  # fmt: skip


@EVERY
def test_every_position_norm_and_nonlinearity_builds_and_steps(data):
    _, task, encoded = learn(data)
    for chosen in parts():
        overrides = chosen | {"model__key_width": 6, "model__value_width": 5, "model__num_heads": 3}
        config, _, _, network = build(data, **overrides)
        before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
        assert math.isfinite(updating(config, task, encoded, network)()), chosen
        for name, parameter in network.named_parameters():
            assert parameter.isfinite().all(), (name, chosen)
        # What is looked up only for tokens that do not occur, and keys' biases, which softmax ignores, may stand still.
        moved = [name for name, old in before.items() if not torch.equal(old, network.get_parameter(name))]
        assert len(moved) > 0.9 * len(before), chosen


@EVERY
@pytest.mark.parametrize("norm_order", ["first", "last"])
def test_the_first_loss_is_about_the_logarithm_of_the_number_of_answers(data, norm_order):
    config, task, encoded, network = build(data, model__norm_order=norm_order, model__d_model=64)
    answers = network(*inputs(task.batch(encoded, torch.arange(len(encoded)), CPU))).shape[-1]
    assert abs(updating(config, task, encoded, network)() - math.log(answers)) < 1


def inputs(batch):
    """What the network is given of a batch."""
    if hasattr(batch, "source"):
        return batch.source, batch.source_real, batch.inputs
    return (batch.inputs, batch.real) if hasattr(batch, "real") else (batch.inputs,)


@EVERY_TOKEN
def test_a_masked_label_gets_no_gradient_and_every_other_does(data):
    _, task, encoded, network = build(data)
    batch = task.batch(encoded, torch.arange(len(encoded)), CPU)
    logits = network(*inputs(batch)).detach().requires_grad_()
    task.loss(lambda *_: logits, batch, 0.1).backward()
    has_gradient = (logits.grad != 0).any(dim=-1)
    assert torch.equal(has_gradient, batch.targets != NO_TARGET)
    assert not has_gradient.all()


@EVERY
def test_a_padded_batch_has_the_gradient_of_its_examples_one_by_one(data):
    """Padding changes nothing, in whichever part of the network: neither a prediction nor what is learned."""
    _, task, encoded, network = build(data)
    gradients = []
    for batches in ([torch.arange(len(encoded))], torch.arange(len(encoded)).split(1)):
        network.zero_grad()
        for indices in batches:
            task.loss(network, task.batch(encoded, indices, CPU), 0.1).backward()
        gradients.append([parameter.grad.clone() for parameter in network.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@EVERY
def test_accumulation_equals_the_big_batch_whatever_the_lengths(data):
    weights = []
    every = torch.arange(len(learn(data)[2]))
    for batches in ([every], [every[:1], every[1:].flip(0)]):
        config, task, encoded, network = build(data, training__optimizer="sgd", training__lr=0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        optimizers = build_optimizers(network, config.training)
        Update(task, network, config.training, encoded, CPU, optimizers, scaler)(batches, config.training.lr)
        weights.append(network.state_dict())
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-5)
