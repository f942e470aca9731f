"""The maximal update parametrization: what holds at the base, and what no width and no depth changes."""

import math
from dataclasses import replace

import pytest
import torch

from model import objective
from model.checkpoint import load_checkpoint
from model.coordinate_check import is_of_any_depth, sizes_after
from model.networks import parametrization
from model.networks.roles import roles_of
from model.tasks.network import build_network
from tests.model.conftest import compose, of, run, small
from tests.model.test_every_shape import EVERY, FAMILIES, learn

BASES = {
    "transformer": {"d_model": 32, "num_layers": 2, "feed_forward_width": 64},
    "recurrent": {"d_model": 32, "num_layers": 1, "hidden_width": 32},
    # Narrower ones are further from what holds of wide ones.
    "convolutional": {"d_model": 64, "num_layers": 2, "filters": 64},
}
STEPS = (1, 2, 5, 10)
GATED = {"nonlinearity": "swiglu", "qk_norm": True}
MUP = {"model__parametrization": "mup"}


def mup(family, times=1, **overrides):
    """Return the settings of a network so many times as wide as the base."""
    widths = of("model", {key: times * width for key, width in BASES[family].items()} | {"num_layers": 2})
    return widths | MUP | {"model__base": BASES[family], "model__dropout": 0.0} | overrides


def wider(family, widths=(1, 2, 4, 8), **overrides):
    return [(times, mup(family, times, **overrides)) for times in widths]


def steepest(data, family, grown, is_counted=lambda name: True, seeds=(0, 1, 2)):
    """Return the steepest slope of the logarithm of what any layer gives over that of the width, or depth."""
    sizes = []
    for _, settings in grown:
        config, task, encoded = learn(data, family, training__weight_decay=0.0, **settings)
        drawn = []
        for seed in seeds:
            torch.manual_seed(seed)
            drawn.append(sizes_after(STEPS, task, config, encoded, torch.arange(len(encoded))))
        sizes.append(
            {step: {name: sum(each[step][name] for each in drawn) for name in drawn[0][step]} for step in STEPS}
        )
    logarithms = torch.tensor([math.log(size) for size, _ in grown])
    away = logarithms - logarithms.mean()
    slopes = []
    for step in STEPS:
        for name in filter(is_counted, set.intersection(*(set(each[step]) for each in sizes))):
            values = torch.tensor([each[step][name] for each in sizes])
            slopes.append(float((away * values.log()).sum() / (away**2).sum()))
    return max(slopes, key=abs)


@EVERY
def test_at_the_base_it_is_standard_but_for_the_rate_of_gains(data, family, settings):
    config, task, _ = learn(data, family, **settings)
    shape = config.model.model_dump()
    base = {key: shape[key] for key in BASES[family]}
    grown, _, _ = learn(data, family, **settings, **MUP, model__base=base, model__gain_rate=3.0)
    torch.manual_seed(0)
    network, factors = build_network(task, config)
    assert factors is None
    torch.manual_seed(0)
    same, factors = build_network(task, grown)
    for (name, weight), other in zip(network.named_parameters(), same.parameters(), strict=True):
        assert torch.equal(weight, other), name
    assert {name: factor.rate for name, factor in factors.items() if factor.rate != 1} == {
        name: 3.0 for name, role in roles_of(same).items() if role == "vector"
    }
    assert {(factor.muon, factor.epsilon) for factor in factors.values()} == {(1.0, 1.0)}


@pytest.mark.parametrize(("given", "tokens", "factor"), [(None, 1000, 1.0), (None, 2, 4.0), (3.0, 1000, 3.0)])
def test_vectors_of_many_tokens_learn_faster_and_nothing_else_does(given, tokens, factor, monkeypatch):
    monkeypatch.setattr(parametrization, "MANY_TOKENS", tokens)
    rates = []
    for rate in (1.0, given):
        config, task, _ = learn("translation", "transformer", **mup("transformer", 4, model__embedding_rate=rate))
        network, factors = build_network(task, config)
        rates.append({name: each.rate for name, each in factors.items()})
    assert {name: rates[1][name] / rate for name, rate in rates[0].items()} == {
        name: factor if role == "embedding" else 1.0 for name, role in roles_of(network).items()
    }


@pytest.mark.quick("tied")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "family", "settings"),
    [
        pytest.param("language_modelling", "transformer", {"model__tied_embeddings": True}, id="tied"),
        *(("translation", family, {}) for family in FAMILIES),
        ("language_modelling", "transformer", of("model", {"positions": "learned", "norm_order": "last"})),
        ("language_modelling", "transformer", of("model", {"positions": "rotary", "norm": "rms"} | GATED)),
        ("language_modelling", "transformer", {"training__optimizer": "muon"}),
    ],
)
def test_no_layer_gives_more_or_less_for_the_width(data, family, settings):
    assert abs(steepest(data, family, wider(family, **settings))) < 0.2


@pytest.mark.parametrize("family", FAMILIES)
def test_without_it_they_do(family):
    grown = [(times, of("model", {key: times * size for key, size in BASES[family].items()})) for times in (1, 4)]
    for _, settings in grown:
        settings |= {"model__num_layers": 2}
    assert steepest("language_modelling", family, grown, seeds=[0]) > 0.5


@pytest.mark.slow
def test_no_depth_changes_what_sublayers_and_the_network_give():
    grown = [(layers, mup("transformer", model__num_layers=layers)) for layers in (2, 4, 8, 16)]
    assert abs(steepest("language_modelling", "transformer", grown, is_of_any_depth)) < 0.2


@pytest.mark.parametrize("role", ["embedding", "tied", "matrix", "head", "vector"])
def test_a_rate_with_another_exponent_is_found(role, monkeypatch):
    rule = parametrization.factors_of

    def wrong(of_role, parameter, base, size, *rest):
        factors = rule(of_role, parameter, base, size, *rest)
        return replace(factors, rate=factors.rate * size) if of_role == role else factors

    monkeypatch.setattr(parametrization, "factors_of", wrong)
    grown = wider("transformer", (1, 4), model__tied_embeddings=role == "tied")
    assert steepest("language_modelling", "transformer", grown, seeds=[0]) > 0.2


@pytest.mark.parametrize(
    ("settings", "holds_from"),
    [
        ({}, {}),
        (mup("transformer"), {"head": ("model.d_model", 32)}),
        (mup("transformer", model__tied_embeddings=True), {}),
    ],
)
def test_the_head_that_is_capped_below_the_base_is_known_to_change_there(settings, holds_from):
    config = small("language_modelling", data__path="a.txt", **settings)
    assert objective.describe_scales(config, "width")["holds_from"] == holds_from


@pytest.mark.parametrize("over", ["width", "depth"])
@pytest.mark.parametrize("family", FAMILIES)
def test_scales_are_networks_each_twice_as_large_as_the_one_before(family, over):
    model = "encoder_decoder" if family == "transformer" else f"{family}_encoder_decoder"
    config = compose("translation", model, model__d_model=66, data__path="pairs")
    config["model"] |= {"num_decoder_layers": config["model"]["num_layers"]}
    config["model"] |= {"num_heads": 3} if family == "transformer" else {}
    grown = objective.describe_scales(config, over)["scales"]
    widths = {f"model.{key}" for key in BASES[family]} - {"model.num_layers"}
    assert set(grown[0]) == (widths if over == "width" else {"model.num_layers", "model.num_decoder_layers"})
    assert grown == [{key: 2**power * size for key, size in grown[0].items()} for power in range(4)]
    for changes in grown:
        changed = {key.removeprefix("model."): size for key, size in changes.items()}
        objective.check(config | {"model": config["model"] | changed})
    # Half of 33 would be no width.
    narrow = config | {"model": config["model"] | {"d_model": 33}}
    assert over == "depth" or objective.describe_scales(narrow, over)["scales"][0]["model.d_model"] == 33


def test_the_sizes_of_a_task_are_those_of_its_steps(fold):
    sizes = objective.output_sizes(fold(small()) | {"steps": [1, 3]})
    assert set(sizes) == {1, 3}
    assert {"embedding", "encoder.layers.0", "head", "head, changed"} <= set(sizes[1])
    assert sizes[3]["head, changed"] != sizes[1]["head, changed"] > 0


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_training_goes_on_from_its_state_and_its_model_is_read_again(fold, tmp_path, optimizer):
    task = fold(small(**MUP, training__optimizer=optimizer), checkpoint_dir=str(tmp_path / "model"))
    points, result = run(task)
    resumed = task | {"resume_dir": str(tmp_path / "state"), "checkpoint_dir": None}
    run(resumed | {"amount": 1})
    assert run(resumed | {"trained": 1}) == (points[1:], result)
    # Of 16 numbers per token, where the base has 128, and of one layer, where it has two.
    network = load_checkpoint(task["checkpoint_dir"]).network
    assert network.head.scale == pytest.approx((16 / 128) ** -0.5)
    assert network.encoder.layers[0].branch_scale == 2
