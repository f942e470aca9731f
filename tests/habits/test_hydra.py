"""What Hydra's users type: references between keys, of which one is searched."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

import hpo
from hpo.commands.given.settings import compose_search
from hpo.config.composing.compose import compose_config
from hpo.config.composing.references import references_of, references_to, with_point
from hpo.config.study_config import config_from_dict
from hpo.study.preparing.preparation import prepare_study
from tests.hpo.cli.commands import hpo as in_this_process
from tests.hpo.cli.commands import refused

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


SPACE = "base: {low: 1.0e-5, high: 0.1, log: true}\n"


ARGUMENTS = ("--config-dir", "my_conf", "data=refers", "space=refers", "study.name=refs")


QUICK = (*ARGUMENTS, "study.trials=3", "dispatch=local", "track=none", "study.metric=score", "study.direction=minimize")


@pytest.fixture
def own():
    """Write an objective and groups of the user's, with references to a searched key."""
    for folder in ("data", "space"):
        Path("my_conf", folder).mkdir(parents=True)
    Path("refers.py").write_text(OBJECTIVE)
    Path("my_conf/data/refers.yaml").write_text(GROUP)
    Path("my_conf/space/refers.yaml").write_text(SPACE)
    yield
    sys.modules.pop("refers", None)


def seen():
    return [json.loads(line) for line in Path("seen").read_text().splitlines()]


def is_right(config, base, extra=1):
    model, nested = config["model"], config["nested"]
    assert config["base"] == model["lr"] == model["betas"][1] == nested["rate"] == config["picked"] == base
    assert (model["name"], model["other"], nested["width"]) == (f"run-{base}-{extra}-0", extra, 8)
    return True


@pytest.mark.slow
def test_a_reference_to_a_searched_key_follows_the_point_everywhere(capsys, own):
    assert in_this_process(capsys, "search", *QUICK)[0] == 0
    study = hpo.load("refs")
    bases = study.trials["base"].tolist()
    points = dict(zip(study.trials["number"], bases, strict=True))
    assert [one["base"] for one in seen()] == [points[number] for number in range(3)]
    assert len({*bases}) == 3
    assert all(is_right(one, one["base"]) for one in seen())
    assert is_right(study.best.config, study.best.point["base"])
    assert is_right(yaml.safe_load(Path("runs/refs/best.yaml").read_text()), study.best.point["base"])
    assert "references" not in Path("runs/refs/best.yaml").read_text()
    frozen = yaml.safe_load(Path("runs/refs/config.yaml").read_text())
    assert is_right(frozen, 0.01)
    assert "model.other" not in frozen["study"]["references"]
    assert frozen["study"]["references"]["model.lr"] == "${base}"

    assert in_this_process(capsys, "search", *QUICK)[0] == 0
    assert in_this_process(capsys, "resume", "refs", "study.trials=4")[0] == 0
    assert in_this_process(capsys, "reproduce", "refs", "--trial=all")[0] == 0
    assert in_this_process(capsys, "train", "--config", "runs/refs/best.yaml")[0] == 0
    assert len(seen()) == 3 + 1 + 4 + 1
    assert all(is_right(one, one["base"]) for one in seen())
    fixed = json.loads(Path("runs/refs/report.json").read_text())["fixed"]
    assert fixed["model.lr"] == "${base}"
    assert "nested.rate" not in fixed


@pytest.mark.slow
def test_what_is_extended_refers_to_its_own_point(capsys, own):
    assert in_this_process(capsys, "search", *QUICK)[0] == 0
    assert in_this_process(capsys, "extend", "refs", "extra=2", "--best", "2")[0] == 0
    later = seen()[3:]
    assert len(later) == 2
    assert {one["base"] for one in later} <= {one["base"] for one in seen()[:3]}
    for one in later:
        one["model"]["other"] = 2  # It refers to nothing that is searched, and stays as it was composed.
        assert is_right(one, one["base"], extra=2)
    line = refused(capsys, "extend", "refs", "model.lr=0.5", "--best", "1")
    assert "model.lr: refers to a searched key" in line


WITH_A_TEST = """
from pathlib import Path


def run_fold(task):
    folder = Path(task["checkpoint_dir"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model").touch()
    return {"score": task["config"]["lr"]}


def describe_data(config):
    return {"name": "nine", "size": 90}


def run_test(task):
    return {"score": task["config"]["lr"], "base": task["config"]["base"]}
"""


@pytest.mark.slow("local")
@pytest.mark.nightly
@pytest.mark.parametrize("dispatch", ["local", "ray"])
def test_the_test_part_is_scored_with_what_refers_to_the_winner(capsys, dispatch):
    Path(f"with_test_{dispatch}.py").write_text(WITH_A_TEST)
    none = ("model=none", "data=none", "training=none", "space=none", f"dispatch={dispatch}", "track=none")
    own = ("+base=0.5", "+lr=${base}", "space.base={low: 0.0, high: 0.1}", "study.metric=score", "study.name=nine")
    typed = ("search", f"objective=with_test_{dispatch}:run_fold", "split.folds=1", "study.trials=2", *none, *own)
    code, _, err = in_this_process(capsys, *typed)
    assert code == 0, err
    study = hpo.load("nine")
    assert study.best.score == study.best.point["base"]
    assert {**study.test()} == {"score": study.best.score, "base": study.best.score}


@pytest.mark.nightly
def test_a_tree_below_objective_config_keeps_its_references(capsys, own):
    below = "objective_config"
    typed = ("objective=refers:train(config)", f"+{below}.split=0.5", f"+{below}.model.lr=${{{below}.split}}")
    relative = f"+{below}.model.name='run ${{..split}}'"
    code, _, err = in_this_process(capsys, "search", *typed, relative, "space.split=[0.1,0.2]", *QUICK[-5:-2])
    assert code == 0, err
    assert [(one["model"]["lr"], one["model"]["name"]) for one in seen()] == [(0.2, "run 0.2"), (0.1, "run 0.1")]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            ["+split=0.1"],
            "split: is a group of the configuration; add your own key with +objective_config.split=...",
        ),
        (["+data=3"], "data: is a group of the configuration; add your own key with +objective_config.data=..."),
        (
            ["+objective_config.split=1", "+lr=1"],
            "lr: must be below objective_config, like all keys of the objective's own tree; write it as "
            "objective_config.lr",
        ),
        (
            ["space.split=[0.1,0.2]"],
            "space.split: the configuration has no key 'split'; give it a default with +objective_config.split=0.1",
        ),
    ],
)
def test_a_name_that_is_taken_says_what_to_type(capsys, own, typed, said):
    assert refused(capsys, "search", "objective=refers:train(config)", *typed, is_silent=True) == f"error: {said}\n"


@pytest.mark.slow
def test_a_reference_that_cannot_be_resolved_names_its_key(capsys, own):
    line = refused(capsys, "search", *QUICK, "space.which=[lr,nothing]", is_silent=True)
    assert "picked" in line
    assert not Path("runs").exists()


def test_a_searched_key_that_is_a_reference_is_set(capsys, own):
    assert in_this_process(capsys, "search", *QUICK, "space.model.lr=[0.5,0.25]")[0] == 0
    assert all(one["model"]["lr"] in (0.5, 0.25) and one["model"]["betas"][1] == one["base"] for one in seen())
    assert all(one["model"]["name"] == f"run-{one['model']['lr']}-1-0" for one in seen())


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("interval(0.1,0.9)", {"low": 0.1, "high": 0.9, "log": False, "integer": False}),
        ("interval(1,8)", {"low": 1.0, "high": 8.0, "log": False, "integer": False}),
        ("int(interval(1,8))", {"low": 1, "high": 8, "log": False, "integer": True}),
        ("tag(log,interval(1e-5,0.1))", {"low": 1e-5, "high": 0.1, "log": True, "integer": False}),
        ("choice(0.3,0.1)", {"choices": [0.3, 0.1]}),
        ("choice(relu,gelu)", {"choices": ["relu", "gelu"]}),
        ("range(1,5)", {"low": 1, "high": 4, "step": 1}),
        ("range(0,1,0.25)", {"low": 0, "high": 0.75, "step": 0.25}),
        ("range(5,1,-1)", {"low": 2, "high": 5, "step": 1}),
        ("range(3)", {"low": 0, "high": 2, "step": 1}),
        ("range(0,1)", {"values": [0]}),
    ],
)
def test_what_hydras_sweepers_search_is_a_dimension(typed, read):
    tree = compose_search(["space=none", f"space.training.lr={typed}"])
    assert tree["space"]["training"] == {"lr": read}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("space.training.lr=0.1,0.2", "space.training.lr: takes one value, given several; write a list as [a,b]"),
        ("training.lr=choice(1,2)", "takes one value, given choice(1,2); to search this key, set space.training.lr"),
        ("space.training.lr=tag(a,range(1,3))", "the tag 'a' has no effect"),
        ("space.training.lr=range(3,3)", "space.training.lr: has no values, given range(3,3)"),
        ("space.training.lr=glob(*)", "space.training.lr: takes one value, given glob(*)"),
    ],
)
def test_what_no_dimension_is_made_of_is_refused_with_what_to_write(capsys, typed, said):
    assert said in refused(capsys, "search", typed)


def test_dimensions_may_be_given_as_one_mapping():
    space = compose_search(["space={data: {beam_size: [1,3]}, training: {lr: {high: 0.02}}}"])["space"]
    assert space["data"] == {"beam_size": [1, 3]}
    assert space["training"]["lr"] == {**compose_search([])["space"]["training"]["lr"], "high": 0.02}


def test_without_references_to_what_is_searched_nothing_is_kept():
    for overrides in ([], ["data=text_classification"]):
        assert "references" not in compose_config("search", overrides)["study"]
    tree = compose_config("search", ["+model.note=${model.d_model}"])
    config = config_from_dict(tree)
    assert config.study.references == {"model.note": "${model.d_model}"}
    assert references_to(config.study.references, ["training.lr"]) == {}


@pytest.mark.nightly
def test_a_tree_in_which_a_reference_was_overwritten_is_refused():
    tree = compose_config("search", ["training.weight_decay=${training.lr}", "dispatch=local"])
    kept = prepare_study(config_from_dict(tree)).config.study.references
    assert kept == {"training.weight_decay": "${training.lr}"}
    tree["training"]["weight_decay"] = 0.5
    with pytest.raises(hpo.HpoError, match=r"^training.weight_decay: must have the value of .* 0\.003, given 0\.5"):
        prepare_study(config_from_dict(tree))


TREE = {
    "base": 0.01,
    "size": {"width": 8, "depth": "${.width}"},
    "model": {"lr": "${base}", "text": "x-${base}-${size.width}", "list": [1, "${base}", {"in": "${size.depth}"}]},
    "copy": "${size}",
    "deep": "${copy.depth}",
    "some": "${oc.select:base,1}",
    "none": "${oc.select:missing,1}",
    "which": "lr",
    "picked": "${model.${which}}",
    "up": {"a": {"b": "${...base}"}},
}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "base": st.floats(-10, 10),
            "size.width": st.integers(0, 9),
            "which": st.sampled_from(["lr", "text"]),
            "model.lr": st.sampled_from([3, "a"]),
        },
    )
)
def test_a_point_gives_what_composing_anew_with_it_would(point):
    composed = OmegaConf.create(TREE)
    default = OmegaConf.to_container(composed, resolve=True)
    references = references_to(references_of(TREE), ["base", "size.width", "which", "model.lr"])
    assert "none" not in references
    for key, value in point.items():
        OmegaConf.update(composed, key, value)
    assert with_point(default, point, references) == OmegaConf.to_container(composed, resolve=True)
