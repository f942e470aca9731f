"""A configuration of OmegaConf, given from Python, keeps its references."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

import hpo
from tests.hpo.commands.searched import HERE, note, noted


def test_a_configuration_of_omegaconf_keeps_its_references():
    config = OmegaConf.create({"model": {"lr": "${base}", "betas": [0.9, "${base}"]}, "text": "a", "layers": [1, 2]})
    found = []

    def train(given):
        found.append(given)
        assert isinstance(given["layers"], list)
        return given["model"]["lr"]

    arguments = {"trials": 3, "direction": "minimize", "settings": HERE, "progress": False, "seed": 3}
    study = hpo.search(train, {"base": hpo.log(1e-5, 0.1)}, config=config, **arguments)
    assert [row.score == row.base for row in study.trials.itertuples()] == [True] * 3
    assert study.best.config["model"]["betas"] == [0.9, study.best.point["base"]]
    assert hpo.search(train, {"base": hpo.log(1e-5, 0.1)}, config=config, **arguments).name == study.name
    plain = {"base": 0.5, "text": "${base}"}
    other = hpo.search(lambda given: given["base"], {"base": (0.0, 1.0)}, config=plain, **arguments)
    assert other.best.config["text"] == "${base}"


PYTHON = {"trials": 3, "direction": "minimize", "settings": HERE, "progress": False, "seed": 3}


def configs_of(space, config, **more):
    """Return the configurations that a function gets."""

    def train(given):
        note(given)
        return 1.0

    Path("noted").unlink(missing_ok=True)
    hpo.search(train, space, config=config, **(PYTHON | more))
    return noted()


@pytest.mark.nightly
def test_a_part_of_a_configuration_of_omegaconf_keeps_what_refers_to_the_inside_of_it():
    train = {
        **{
            "lr": 0.5,
            "model": {"lr": "${train.lr}", "near": "${..lr}", "all": ["${train.model.lr}"]},
            "seed": "${seed}",
        },
        **{"name": "${seed}-${train.lr}", "half": "${oc.decode:'[${train.lr}, ${seed}]'}", "sizes": "${sizes}"},
        **{"select": "${oc.select:train.lr,1}", "copy": "${train.model}", "env": "${oc.env:NOPE,3}", "up": "${..seed}"},
    }
    whole = OmegaConf.create({"seed": 7, "sizes": {"width": 8}, "train": train, "runs": [train]})
    found = configs_of({"lr": (0.0, 1.0)}, whole.train)
    assert len({one["lr"] for one in found}) == 3
    for one in found:
        whole.train.lr = one["lr"]
        expected = OmegaConf.to_container(whole.train, resolve=True)
        assert one == expected
    sub = OmegaConf.create({"runs": [{"lr": 0.5, "copy": "${runs[0].lr}"}]}).runs[0]
    assert all(one["copy"] == one["lr"] for one in configs_of({"lr": [0.25, 0.75]}, sub, trials=2))


@pytest.mark.nightly
def test_a_configuration_of_omegaconf_inside_of_a_dict_keeps_its_references():
    inner = OmegaConf.create(
        {"lr": 0.1, "k": "${.lr}", "deep": {"l": "${lr}", "m": "${..lr}"}, "base": "${oc.select:lr}"}
    )
    config = {"base": 0.01, "model": inner, "list": [OmegaConf.create({"a": 1, "b": "${a}"})]}
    found = configs_of({"model": {"lr": (0.0, 1.0)}}, config)
    assert len({one["model"]["lr"] for one in found}) == 3
    for one in found:
        inner.lr = one["model"]["lr"]
        expected = OmegaConf.to_container(inner, resolve=True)
        assert one == {"base": 0.01, "model": expected, "list": [{"a": 1, "b": 1}]}
    config = {"my.model": OmegaConf.create({"lr": 0.1, "k": "${.lr}"})}
    assert configs_of({"x": [1, 2]}, config, trials=1)[0]["my.model"] == {"lr": 0.1, "k": 0.1}


def test_what_an_inner_configuration_of_omegaconf_refers_to_outside_of_it_is_refused_by_its_key():
    for config, key in (
        ({"base": 0.01, "model": OmegaConf.create({"lr": 0.1, "k": "${base}"})}, "config.model.k"),
        ({"a": [OmegaConf.create({"deep": {"k": "${base}"}})]}, "config.a.0.deep.k"),
        (OmegaConf.create({"train": {"model": {"k": "${base}"}}}).train, "config.model.k"),
    ):
        with pytest.raises(hpo.HpoError, match=rf"^{key}: Interpolation key 'base' not found; .* same DictConfig$"):
            configs_of({"model": {"lr": (0.0, 1.0)}}, config)
    with pytest.raises(hpo.HpoError, match=r"^config.model.k: has only the placeholder \?\?\?; give it a value$"):
        configs_of({"x": [1, 2]}, {"model": OmegaConf.create({"k": "???"})})
    assert not Path("runs").exists()


@pytest.mark.nightly
def test_what_the_environment_says_is_decoded_beside_a_reference_to_a_searched_key(monkeypatch):
    monkeypatch.setenv("MYLR", "[0.5, 2]")
    config = OmegaConf.create(
        {
            **{"copy": "${lr}", "decoded": "${oc.decode:${oc.env:MYLR}}", "spaced": "${oc.decode: ${oc.env:MYLR} }"},
            **{"default": "${oc.decode:${oc.env:NOPE,3}}", "null": "${oc.decode:${oc.env:NOPE,null}}"},
            **{"text": "${oc.decode:'[${lr},${oc.env:NOPE,3}]'}", "plain": "${oc.env:MYLR}"},
        }
    )
    for one in configs_of({"lr": (0.0, 1.0)}, config):
        expected = OmegaConf.to_container(OmegaConf.merge({"lr": one["lr"]}, config), resolve=True)
        assert one == expected
