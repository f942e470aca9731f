"""References between keys of a configuration, of which one is searched: typed, in files and in OmegaConf's objects."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

import hpo
from hpo.config.composing.references import references_of, references_to, with_point
from hpo.study.preparing.preparation import refuse_bad_search
from tests.hpo.cli.commands import prints, refused
from tests.hpo.commands.searched import HERE, note, noted
from tests.studies import compose_config, config_from_dict, prepare_study, refuses

pytestmark = pytest.mark.slow

OBJECTIVE = """
import json
def train(config):
    with open("seen", "a") as file:
        file.write(json.dumps(config) + "\\n")
    return config["model"]["lr"]
"""
GROUP = """# @package _global_
objective: refers:train(config)
base: 0.01
extra: 1
preset: {width: 8, rate: "${base}"}
model: {lr: "${base}", name: "run-${.lr}-${extra}-${study.seed}", betas: [0.9, "${base}"], other: "${extra}"}
nested: ${preset}
which: lr
picked: ${model.${which}}
data: {name: refs, digits: null}
"""
LOCAL = ("dispatch=local", "track=none", "report.figures=false", "study.metric=score")
REFS = ("--config-dir", "my_conf", "data=refers", "space=refers", "study.name=refs", "study.direction=minimize", *LOCAL)
PYTHON = {"direction": "minimize", "settings": HERE, "progress": False, "seed": 3}
TREE = {"base": 0.01, "size": {"width": 8, "depth": "${.width}"}, "copy": "${size}", "deep": "${copy.depth}"}
MODEL = {"lr": "${base}", "text": "x-${base}-${size.width}", "list": [1, "${base}", {"in": "${size.depth}"}]}
TREE |= {"model": MODEL, "which": "lr", "picked": "${model.${which}}", "up": {"a": {"b": "${...base}"}}}
TREE |= {"some": "${oc.select:base,1}", "none": "${oc.select:missing,1}"}
CHANGES = {"base": st.floats(-10, 10), "size.width": st.integers(0, 9), "which": st.sampled_from(["lr", "text"])}
CHANGES |= {"model.lr": st.sampled_from([3, "a"])}


@pytest.fixture
def own(monkeypatch):
    for folder in ("data", "space"):
        Path("my_conf", folder).mkdir(parents=True)
    Path("refers.py").write_text(OBJECTIVE)
    Path("my_conf/data/refers.yaml").write_text(GROUP)
    Path("my_conf/space/refers.yaml").write_text("base: {low: 1.0e-5, high: 0.1, log: true}\n")
    monkeypatch.delitem(sys.modules, "refers", raising=False)
    yield
    sys.modules.pop("refers", None)


def seen():
    return [json.loads(line) for line in Path("seen").read_text().splitlines()]


def is_right(config, base, extra=1):
    model, nested = config["model"], config["nested"]
    assert config["base"] == model["lr"] == model["betas"][1] == nested["rate"] == config["picked"] == base
    assert (model["name"], model["other"], nested["width"]) == (f"run-{base}-{extra}-0", extra, 8)
    return True


@pytest.mark.usefixtures("own")
def test_a_reference_to_a_searched_key_follows_the_point_everywhere(capsys):
    prints(capsys, "search", *REFS, "study.trials=3")
    study = hpo.load("refs")
    points = dict(zip(study.trials["number"], study.trials["base"].tolist(), strict=True))
    assert [one["base"] for one in seen()] == [points[number] for number in range(3)]
    best, frozen = (yaml.safe_load((study.folder / name).read_text()) for name in ("best.yaml", "config.yaml"))
    assert is_right(study.best.config, study.best.point["base"])
    assert is_right(best, study.best.point["base"])
    assert is_right(frozen, 0.01)
    assert json.loads((study.folder / "report.json").read_text())["fixed"]["model.lr"] == "${base}"
    prints(capsys, "resume", "refs", "study.trials=4")
    prints(capsys, "reproduce", "refs", "--trial=all")
    prints(capsys, "train", "--config", "runs/refs/best.yaml")
    assert len(seen()) == 3 + 1 + 4 + 1
    assert all(is_right(one, one["base"]) for one in seen())
    prints(capsys, "extend", "refs", "extra=2", "--best", "1")
    (*earlier, later) = seen()
    assert later["base"] in {one["base"] for one in earlier}
    later["model"]["other"] = 2  # It refers to nothing that is searched, and stays as it was composed.
    assert is_right(later, later["base"], extra=2)
    assert "model.lr: refers to a searched key" in refused(capsys, "extend", "refs", "model.lr=0.5", "--best", "1")


@pytest.mark.usefixtures("own")
def test_a_reference_that_cannot_be_resolved_names_its_key(capsys):
    assert "picked" in refused(capsys, "search", *REFS, "space.which=[lr,nothing]", is_silent=True)
    assert not Path("runs").exists()


def test_a_tree_in_which_a_reference_was_overwritten_is_refused():
    tree = compose_config("search", ["training.weight_decay=${training.lr}", "dispatch=local"])
    tree["training"]["weight_decay"] = 0.5
    refuses(hpo.HpoError, r"^training.weight_decay: must be 0\.003, given 0\.5", prepare_study, config_from_dict(tree))


def test_a_tree_below_objective_config_keeps_its_references():
    split, lr = "+objective_config.split=0.5", "+objective_config.model.lr=${oc.select:objective_config.split,9}"
    words = ("objective=toy_score:score(config)", split, lr, "+objective_config.model.at='at ${..split}'")
    config = config_from_dict(compose_config("search", [*words, "space.split=[0.1,0.2]"]))
    assert refuse_bad_search(config).trial_config({"split": 0.1})["model"] == {"lr": 0.1, "at": "at 0.1"}


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.fixed_dictionaries({}, optional=CHANGES))
def test_a_point_gives_what_composing_anew_with_it_would(point):
    composed = OmegaConf.create(TREE)
    default = OmegaConf.to_container(composed, resolve=True)
    references = references_to(references_of(TREE), [*CHANGES])
    assert "none" not in references
    for key, value in point.items():
        OmegaConf.update(composed, key, value)
    assert with_point(default, point, references) == OmegaConf.to_container(composed, resolve=True)


def configs_of(space, config, trials=2):
    def train(given):
        note(given)
        return 1.0

    Path("noted").unlink(missing_ok=True)
    hpo.search(train, space, config=config, trials=trials, **PYTHON)
    seen = noted()
    assert len({json.dumps(one) for one in seen}) == trials
    return seen


def test_a_configuration_of_omegaconf_keeps_its_references():
    config = OmegaConf.create({"model": {"lr": "${base}", "betas": [0.9, "${base}"]}})

    def train(given):
        return given["model"]["lr"]

    study, again = (hpo.search(train, {"base": (0.0, 0.1)}, config=config, trials=2, **PYTHON) for _ in range(2))
    assert [row.score == row.base for row in study.trials.itertuples()] == [True] * 2
    assert (study.best.config["model"]["betas"], again.name) == ([0.9, study.best.point["base"]], study.name)
    (one,) = configs_of({"base": (0.0, 1.0)}, {"base": 0.5, "text": "${base}"}, trials=1)
    assert one["text"] == "${base}"


def test_a_part_of_a_configuration_of_omegaconf_keeps_what_refers_to_the_inside_of_it(monkeypatch):
    monkeypatch.setenv("MY_LR", "[0.5, 2]")
    train = {
        "model": {"lr": "${train.lr}", "near": "${..lr}", "all": ["${train.model.lr}"]},
        "name": "${seed}-${train.lr}",
        "copy": "${train.model}",
        "decoded": ["${oc.decode:${oc.env:MY_LR}}", "${oc.decode:'[${train.lr},${oc.env:NOPE,3}]'}"],
    }
    whole = OmegaConf.create({"seed": 7, "train": {"lr": 0.5, **train}})
    for one in configs_of({"lr": (0.0, 1.0)}, whole.train):
        whole.train.lr = one["lr"]
        assert one == OmegaConf.to_container(whole.train, resolve=True)


def test_a_configuration_of_omegaconf_inside_of_a_dict_keeps_its_references():
    inner = {"lr": 0.1, "k": "${.lr}", "deep": {"l": "${lr}", "m": "${..lr}"}, "base": "${oc.select:lr}"}
    inner, dotted = OmegaConf.create(inner), OmegaConf.create({"lr": 0.1, "k": "${.lr}"})
    config = {"model": inner, "list": [OmegaConf.create({"a": 1, "b": "${a}"})], "my.model": dotted}
    for one in configs_of({"model": {"lr": (0.0, 1.0)}}, config):
        inner.lr = one["model"]["lr"]
        expected = {"model": OmegaConf.to_container(inner, resolve=True), "list": [{"a": 1, "b": 1}]}
        assert one == {**expected, "my.model": {"lr": 0.1, "k": 0.1}}


def test_what_an_inner_configuration_of_omegaconf_refers_to_outside_of_it_is_refused_by_its_key():
    for config, key in (
        ({"base": 0.01, "model": OmegaConf.create({"lr": 0.1, "k": "${base}"})}, "config.model.k"),
        (OmegaConf.create({"train": {"model": {"k": "${base}"}}}).train, "config.model.k"),
    ):
        with pytest.raises(hpo.HpoError, match=rf"^{key}: Interpolation key 'base' not found; .* same DictConfig$"):
            configs_of({"model": {"lr": (0.0, 1.0)}}, config)
    with pytest.raises(hpo.HpoError, match=r"^config.model.k: has only the placeholder \?\?\?; give it a value$"):
        configs_of({"x": [1, 2]}, {"model": OmegaConf.create({"k": "???"})})
    assert not Path("runs").exists()
