"""The maximal update parametrization: what holds at the base, and what no width and no depth changes."""

from collections import defaultdict

import pytest
import torch

from hpo.study.coordinate_check import SEEDS, STEPS, CoordinateCheck
from model import objective
from model.checkpoint import load_checkpoint
from model.coordinate_check import is_of_any_depth, sizes_after
from model.networks.parametrization import roles_of
from model.tasks.network import build_network
from tests.model.conftest import compose, of, run, small
from tests.model.test_every_shape import EVERY, FAMILIES, learn

BASES = {
    "transformer": {"d_model": 32, "num_layers": 2, "feed_forward_width": 64},
    "recurrent": {"d_model": 32, "num_layers": 1, "hidden_width": 32},
    # Narrower ones are further from what holds of wide ones.
    "convolutional": {"d_model": 64, "num_layers": 2, "filters": 64},
}
GATED = {"nonlinearity": "swiglu", "qk_norm": True}
MUP = {"model__parametrization": "mup"}


def mup(family, times=1, **overrides):
    widths = of("model", {key: times * width for key, width in BASES[family].items()} | {"num_layers": 2})
    return widths | MUP | {"model__base": BASES[family], "model__dropout": 0.0} | overrides


def checked(data, family, grown, is_counted=lambda name: True):
    """Return the check of how large the outputs of each layer are, over widths or depths."""
    sizes = {step: defaultdict(list) for step in STEPS}
    for _, settings in grown:
        config, task, encoded = learn(data, family, training__weight_decay=0.0, **settings)
        drawn = []
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            drawn.append(sizes_after(STEPS, task, config, encoded, torch.arange(len(encoded))))
        for step, of_step in sizes.items():
            for name in filter(is_counted, drawn[0][step]):
                of_step[name].append(sum(each[step][name] for each in drawn))
    common = {step: {name: each for name, each in of.items() if len(each) == len(grown)} for step, of in sizes.items()}
    return CoordinateCheck("size", [size for size, _ in grown], [], common)


@EVERY
def test_at_the_base_it_is_standard_but_for_the_rate_of_gains(data, family, settings):
    config, task, _ = learn(data, family, **settings)
    base = {key: config.model.model_dump()[key] for key in BASES[family]}
    grown, _, _ = learn(data, family, **settings, **MUP, model__base=base, model__gain_rate=3.0)
    torch.manual_seed(0)
    network, factors = build_network(task, config)
    assert factors is None
    torch.manual_seed(0)
    same, factors = build_network(task, grown)
    for (name, weight), other in zip(network.named_parameters(), same.parameters(), strict=True):
        assert torch.equal(weight, other), name
    gains = {name: 3.0 for name, role in roles_of(same).items() if role == "vector"}
    assert {name: factor.rate for name, factor in factors.items() if factor.rate != 1} == gains
    assert {(factor.muon, factor.epsilon) for factor in factors.values()} == {(1.0, 1.0)}


@pytest.mark.quick("tied")
@pytest.mark.slow("translation-transformer-*", "*-settings6")
@pytest.mark.nightly
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
    check = checked(data, family, [(times, mup(family, times, **settings)) for times in (1, 2, 4, 8)])
    assert check.is_within, check.verdict


@pytest.mark.slow
def test_no_depth_changes_what_sublayers_and_the_network_give():
    grown = [(layers, mup("transformer", model__num_layers=layers)) for layers in (2, 4, 8, 16)]
    check = checked("language_modelling", "transformer", grown, is_of_any_depth)
    assert check.is_within, check.verdict


@pytest.mark.parametrize(("is_tied", "holds_from"), [(False, {"head": ("model.d_model", 32)}), (True, {})])
def test_the_head_that_is_capped_below_the_base_is_known_to_change_there(is_tied, holds_from):
    config = small("language_modelling", data__path="a.txt", **mup("transformer", model__tied_embeddings=is_tied))
    assert objective.describe_scales(config, "width")["holds_from"] == holds_from


@pytest.mark.parametrize("over", ["width", "depth"])
@pytest.mark.parametrize("family", FAMILIES)
def test_scales_are_networks_each_twice_as_large_as_the_one_before(family, over):
    model = "encoder_decoder" if family == "transformer" else f"{family}_encoder_decoder"
    sizes = of("model", {"d_model": 66, "num_layers": 2, "num_decoder_layers": 2})
    config = compose("translation", model, **sizes, data__path="pairs")
    config["model"] |= {"num_heads": 3} if family == "transformer" else {}
    grown = objective.describe_scales(config, over)["scales"]
    widths = {f"model.{key}" for key in BASES[family]} - {"model.num_layers"}
    assert set(grown[0]) == (widths if over == "width" else {"model.num_layers", "model.num_decoder_layers"})
    assert grown == [{key: 2**power * size for key, size in grown[0].items()} for power in range(4)]
    for changes in grown:
        changed = {key.removeprefix("model."): size for key, size in changes.items()}
        objective.check(config | {"model": config["model"] | changed})


def test_a_checkpoint_is_read_with_the_scales_of_its_network(fold, tmp_path):
    run(fold(small(**MUP), checkpoint_dir=str(tmp_path / "model")))
    network = load_checkpoint(str(tmp_path / "model")).network
    assert (network.head.scale, network.encoder.layers[0].branch_scale) == (pytest.approx((16 / 128) ** -0.5), 2)


def test_the_sizes_of_a_task_are_those_of_its_steps(fold):
    sizes = objective.output_sizes(fold(small()) | {"steps": [1, 3]})
    assert set(sizes) == {1, 3}
    assert {"embedding", "encoder.layers.0", "head", "head, changed"} <= set(sizes[1])
    assert sizes[3]["head, changed"] != sizes[1]["head, changed"] > 0
