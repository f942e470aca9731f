"""What every shape of network of every family promises, such as that masked labels and padding teach it nothing."""

import itertools
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model.config.whole import parse
from model.networks.roles import matrices_of
from model.networks.transformer.attention import MultiHeadAttention
from model.tasks.choose import TASKS
from model.tasks.cross_entropy import NO_TARGET, summed_cross_entropy
from model.training.optimise import average_of, build_optimizers
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
CONVOLUTIONAL = {"normed": {"model__filter_width": 5}, "not normed": {"model__weight_norm": False}}
# Settings of each family, for each shape or for all.
VARIANTS = {
    "transformer": {
        "sinusoidal": {},
        "rotary": {"model__positions": "rotary"},
        "alibi": {"model__positions": "alibi", "model__norm_order": "last"},
    },
    "recurrent_encoder": {
        "lstm": {"model__num_layers": 2},
        "gru": {"model__cell": "gru", "model__bidirectional": False},
    },
    "recurrent_decoder": {"lstm": {"model__num_layers": 2}, "gru": {"model__cell": "gru"}},
    "recurrent_encoder_decoder": {
        "mlp": {"model__attention": "mlp", "model__attend": "before", "model__bridge": "mlp", "model__cell": "gru"},
        "vector": {
            "model__attention": "none",
            "model__bidirectional": False,
            "model__reverse_source": True,
            "model__num_layers": 2,
        },
        "dot": {"model__attention": "dot", "model__input_feeding": True, "model__num_layers": 2},
        "bilinear": {"model__bridge": "zero", "model__num_decoder_layers": 2},
    },
}
VARIANTS |= {f"convolutional_{shape}": CONVOLUTIONAL for shape in ("encoder", "decoder", "encoder_decoder")}
CASES = [
    pytest.param(data, family, settings, id=f"{data}-{family}-{name}")
    for data, shape in SHAPES.items()
    for family in ("transformer", "recurrent", "convolutional")
    for name, settings in VARIANTS.get(f"{family}_{shape}", VARIANTS["transformer"]).items()
]
EVERY = pytest.mark.parametrize(("data", "family", "settings"), CASES)
# By default the first network of each family and shape; the others run nightly.
FIRST = pytest.mark.quick(*{case.values[:2]: case.id for case in reversed(CASES)}.values())


def of(*data):
    """The cases of these tasks."""
    return pytest.mark.parametrize(("data", "family", "settings"), [case for case in CASES if case.values[0] in data])


TRANSFORMERS = pytest.mark.parametrize("data", SHAPES)


def learn(data, family="transformer", **overrides):
    """Configuration, task and encoded texts."""
    model = SHAPES[data] if family == "transformer" else f"{family}_{SHAPES[data]}"
    tokens = {} if data == "tagging" else WORDS
    context = {"data__context": 6} if data == "language_modelling" else {}
    config = parse(small(data, model, **(SETTINGS | LEARNING | tokens | context | overrides)))
    task = TASKS[data].learn(config, ITEMS[data], range(len(TEXTS)))
    return config, task, task.encode(ITEMS[data])


def build(data, family="transformer", seed=0, **overrides):
    config, task, encoded = learn(data, family, **overrides)
    torch.manual_seed(seed)
    return config, task, encoded, task.build(config)


def update_of(config, task, encoded, network, scales=False):
    scaler = torch.amp.GradScaler("cpu", enabled=scales)
    return Update(task, network, config.training, encoded, CPU, build_optimizers(network, config.training), scaler)


def updating(config, task, encoded, network):
    """One call = one step of the trainer on all texts; gives the mean loss before it."""
    update = update_of(config, task, encoded, network)
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
            "model__qk_norm": number % 5 < 2, "model__num_key_heads": (None, 1, 3)[number % 4 % 3],
        }  # fmt: skip


@pytest.mark.quick("text_classification")
@pytest.mark.slow
@TRANSFORMERS
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


@FIRST
@pytest.mark.nightly
@EVERY
def test_the_first_loss_is_about_the_logarithm_of_the_number_of_answers(data, family, settings):
    config, task, encoded, network = build(data, family, **settings, model__d_model=64)
    answers = network(*inputs(task.batch(encoded, torch.arange(len(encoded)), CPU))).shape[-1]
    assert abs(updating(config, task, encoded, network)() - math.log(answers)) < 1


@pytest.mark.parametrize(
    ("data", "family"),
    [(data, family) for data in ("language_modelling", "translation") for family in ("transformer", "recurrent")],
)
def test_tied_embeddings_are_read_as_large_as_untied_ones(data, family):
    """Smaller ones are drowned by what the first layers add, and learning is late."""
    sizes = {"model__d_model": 128, "model__positions": "none"} if family == "transformer" else {
        "model__d_model": 128, "model__hidden_width": 128}  # fmt: skip
    deviations = []
    for is_tied in (False, True):
        config, task, encoded, network = build(data, family, **sizes, model__tied_embeddings=is_tied)
        embedding = network.target_embedding if data == "translation" else network.embedding
        deviations.append(float(embedding(torch.arange(embedding.tokens.num_embeddings)[None]).detach().std()))
        answers = embedding.tokens.num_embeddings
        assert abs(updating(config, task, encoded, network)() - math.log(answers)) < 1
    assert deviations[1] == pytest.approx(deviations[0], rel=0.1)


@pytest.mark.parametrize("is_tied", [False, True])
def test_a_head_that_learns_faster_begins_with_the_same_logits(is_tied):
    """Only the size of the weights and of the step differs."""
    logits = []
    for scale in (1.0, 4.0):
        torch.manual_seed(0)
        network = build("language_modelling", model__tied_embeddings=is_tied, model__head_scale=scale)[3]
        logits.append(network.eval()(torch.arange(5)[None]))
    torch.testing.assert_close(*logits)


@FIRST
@pytest.mark.nightly
@EVERY
def test_muon_takes_a_step_with_every_network(data, family, settings):
    config, task, encoded, network = build(data, family, **settings, training__optimizer="muon")
    taken = {id(matrix.weight) for matrix in matrices_of(network)}
    moved = [parameter for parameter in network.parameters() if id(parameter) in taken]
    before = [parameter.detach().clone() for parameter in moved]
    assert math.isfinite(updating(config, task, encoded, network)())
    assert len(taken) == len(moved) > 0
    assert all(not torch.equal(new, old) for new, old in zip(moved, before, strict=True))


@FIRST
@pytest.mark.nightly
@EVERY
def test_z_loss_and_a_running_mean_of_the_weights_go_with_every_network(data, family, settings):
    mean = {"training__ema": 0.75, "training__ema_warmup": False}
    values = settings | mean | {"training__z_loss": 1e-4, "training__schedule": "wsd"}
    config, task, encoded, network = build(data, family, **values)
    average = average_of(network, config.training)
    average.update_parameters(network)
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    assert math.isfinite(updating(config, task, encoded, network)())
    average.update_parameters(network)
    for name, parameter in network.named_parameters():
        expected = 0.75 * before[name] + 0.25 * parameter
        torch.testing.assert_close(average.module.get_parameter(name), expected)


def test_muon_takes_a_step_in_half_precision_without_clipping():
    config, task, encoded, network = build("text_classification", training__optimizer="muon", training__clip_norm=None)
    update = update_of(config, task, encoded, network, scales=True)
    assert math.isfinite(update([torch.arange(len(encoded))], 0.01)[0])


def loss_and_gradients(task, encoded, network, indices, **how):
    network.zero_grad()
    loss = task.loss(network, task.batch(encoded, indices, CPU, **how), 0.1, 0.01)
    loss.objective.backward()
    gradients = [parameter.grad.clone() for parameter in network.parameters()]
    return [loss.objective.detach(), loss.cross_entropy, *gradients]


def inputs(batch):
    """What the network is given of a batch."""
    if hasattr(batch, "source"):
        return batch.source, batch.source_mask, batch.inputs
    return (batch.inputs, batch.attention_mask) if hasattr(batch, "attention_mask") else (batch.inputs,)


class NoWaiting(TorchDispatchMode):
    """Refuses to read a number of a tensor, for which the CPU would wait until a GPU has computed it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten._local_scalar_dense.default, "the step waits for the device"
        return func(*args, **(kwargs or {}))


@FIRST
@pytest.mark.nightly
@EVERY
def test_a_step_never_waits_for_the_device(data, family, settings):
    if family == "recurrent" and data != "language_modelling":
        pytest.skip("torch packs sequences by their lengths on the CPU")
    settings = settings | {"model__dropout": 0.1, "training__clip_norm": 1.0}
    config, task, encoded, network = build(data, family, **settings)
    with NoWaiting():
        update_of(config, task, encoded, network)([torch.arange(1), torch.arange(1, len(encoded))], 0.001)


@FIRST
@pytest.mark.nightly
@EVERY
def test_a_step_in_half_precision_has_nearly_the_same_loss(data, family, settings):
    losses = []
    for precision in ("float32", "bfloat16"):
        config, task, encoded, network = build(data, family, **settings, training__precision=precision)
        step = updating(config, task, encoded, network)
        losses.append([step(), step()])
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


@TRANSFORMERS
def test_the_number_of_predictions_is_that_of_the_targets(data):
    _, task, encoded = learn(data)
    for indices in (torch.arange(len(encoded)), torch.tensor([1])):
        batch = task.batch(encoded, indices, CPU)
        assert task.count(encoded, indices) == int((batch.targets != NO_TARGET).sum())


# One prediction a token: only with these can a part of the labels be masked.
@of("tagging", "language_modelling", "translation")
def test_a_masked_label_gets_no_gradient_and_every_other_does(data, family, settings):
    _, task, encoded, network = build(data, family, **settings)
    batch = task.batch(encoded, torch.arange(len(encoded)), CPU)
    logits = network(*inputs(batch)).detach().requires_grad_()
    task.loss(lambda *_: logits, batch, 0.1).objective.backward()
    has_gradient = (logits.grad != 0).any(dim=-1)
    assert torch.equal(has_gradient, batch.targets != NO_TARGET)
    assert not has_gradient.all()


@of("language_modelling")
def test_later_tokens_are_not_seen(data, family, settings):
    """The same of targets: test_every_pair.py."""
    network = build(data, family, **settings)[3].eval()
    before, after = (network(torch.tensor([tokens])) for tokens in ([4, 5, 6, 7, 8], [4, 5, 6, 8, 7]))
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3], after[:, 3])


@EVERY
def test_a_padded_batch_has_the_gradient_of_its_examples_one_by_one(data, family, settings):
    """Padding changes nothing, in whichever part of the network: neither a prediction nor what is learned."""
    _, task, encoded, network = build(data, family, **settings)
    gradients = []
    for batches in ([torch.arange(len(encoded))], torch.arange(len(encoded)).split(1)):
        network.zero_grad()
        for indices in batches:
            task.loss(network, task.batch(encoded, indices, CPU), 0.1).objective.backward()
        gradients.append([parameter.grad.clone() for parameter in network.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_padding_changes_no_pooled_vector(pooling, family):
    _, task, encoded, network = build("text_classification", family, model__pooling=pooling)
    together = network(*inputs(task.batch(encoded, torch.arange(len(encoded)), CPU)))
    alone = [network(*inputs(task.batch(encoded, torch.tensor([place]), CPU))) for place in range(len(encoded))]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(together, build("text_classification", family)[3](*inputs(
        task.batch(encoded, torch.arange(len(encoded)), CPU)))) or pooling == "mean"  # fmt: skip


@TRANSFORMERS
@pytest.mark.parametrize("key_heads", [1, 2])
def test_shared_heads_of_keys_and_values_are_heads_that_are_equal(data, key_heads):
    """Ainslie et al. 2023: as if each head of queries had a copy of the keys and values that it shares."""
    sizes = {"model__num_heads": 4, "model__key_width": 6, "model__value_width": 5}
    _, task, encoded, shared = build(data, **sizes, model__num_key_heads=key_heads)
    _, _, _, whole = build(data, **sizes)
    weights = shared.state_dict()
    for name, module in shared.named_modules():
        if isinstance(module, MultiHeadAttention):
            for part in ("weight", "bias"):
                query, key, value = weights[f"{name}.projection.{part}"].split(module.widths)
                copies = [
                    rows.unflatten(0, (key_heads, -1)).repeat_interleave(4 // key_heads, dim=0).flatten(0, 1)
                    for rows in (key, value)
                ]
                weights[f"{name}.projection.{part}"] = torch.cat([query, *copies])
    whole.load_state_dict(weights)
    batch = inputs(task.batch(encoded, torch.arange(len(encoded)), CPU))
    torch.testing.assert_close(shared(*batch), whole(*batch), rtol=1e-4, atol=1e-5)


@TRANSFORMERS
def test_queries_and_keys_that_are_normed_are_of_length_one_a_number(data):
    _, task, encoded, network = build(data, model__qk_norm=True)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, MultiHeadAttention):
                module.projection.weight[: sum(module.widths[:2])] *= 1e4
    logits = network(*inputs(task.batch(encoded, torch.arange(len(encoded)), CPU)))
    _, _, _, same = build(data, model__qk_norm=True)
    torch.testing.assert_close(
        logits, same(*inputs(task.batch(encoded, torch.arange(len(encoded)), CPU))), rtol=1e-2, atol=1e-2
    )


@TRANSFORMERS
def test_recomputed_activations_change_no_bit(data):
    weights = []
    for recomputes in (False, True):
        settings = {"model__dropout": 0.2, "training__activation_checkpointing": recomputes}
        config, task, encoded, network = build(data, **settings)
        torch.manual_seed(1)
        updating(config, task, encoded, network)()
        weights.append(network.state_dict())
    for name, values in weights[0].items():
        assert torch.equal(values, weights[1][name]), name


def test_the_z_loss_is_the_square_of_the_logarithm_of_the_denominator():
    logits, targets = torch.randn(5, 7), torch.tensor([1, NO_TARGET, 0, 6, 2])
    plain = summed_cross_entropy(logits, targets, 0.1, 0.0)
    expected = plain.objective + 0.5 * sum(float(row.exp().sum().log()) ** 2 for row in logits[targets != NO_TARGET])
    with_z_loss = summed_cross_entropy(logits, targets, 0.1, 0.5)
    torch.testing.assert_close(with_z_loss.objective, expected)
    assert with_z_loss.cross_entropy == plain.cross_entropy


@FIRST
@pytest.mark.nightly
@EVERY
def test_accumulation_equals_the_big_batch_whatever_the_lengths(data, family, settings):
    weights = []
    every = torch.arange(len(learn(data, family, **settings)[2]))
    for batches in ([every], [every[:1], every[1:].flip(0)]):
        config, task, encoded, network = build(data, family, **settings, training__optimizer="sgd", training__lr=0.1)
        update_of(config, task, encoded, network)(batches, config.training.lr)
        weights.append(network.state_dict())
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-5)
