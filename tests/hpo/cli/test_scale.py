"""`hpo scale`: whether hyperparameters hold when a model grows."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import hpo as toolkit
from tests.hpo.cli.commands import documented, hpo, printed, refused

WIDTHS = "study.scales=[{width: 16}, {width: 64}, {width: 256}]"
OWN = ("data=none", "model=none", "training=none", "study.metric=score", "+width=16", "+power=0.5")
LAYERS = ("objective=tests.hpo.cli.test_scale:run_fold", *OWN)
LAW = (
    *("objective=tests.hpo.cli.test_scale:law(config)", "study.metric=loss", "+width=8", "+lr=0.1"),
    *("study.scales=[{width: 8}, {width: 16}, {width: 32}]", "dispatch=local", "track=none"),
)
RATES = (0.0125, 0.025, 0.05, 0.1, 0.2)


def law(config):
    """The best rate halves with each doubling of the width; each factor of 2 away from it costs one."""
    return abs(math.log2(config["lr"] / (0.8 / config["width"])))


def run_fold(task):
    return {"score": 1.0}


def output_sizes(task):
    """Two layers that are not trained, and whose first weights are divided by a power of their number of inputs."""
    if task["config"]["power"] == "many":
        return {1: {"first": "large"}}
    width, draw = task["config"]["width"], np.random.default_rng(task["seed"])
    inputs = draw.normal(size=(50, width))
    outputs = {}
    for name in ("first", "second"):
        inputs = outputs[name] = inputs @ draw.normal(size=(width, width)) / width ** task["config"]["power"]
    outputs[f"only of width {width}"] = np.ones(1)
    sizes = {name: float(np.abs(given).mean()) for name, given in outputs.items()}
    return dict.fromkeys(task["steps"], sizes)


@pytest.mark.slow
def test_sizes_that_grow_with_the_width_fail_and_those_that_stay_pass_and_seeds_follow_the_study_s(capsys):
    def sizes(seed):
        return printed(capsys, "scale", "--check", *LAYERS, WIDTHS, f"study.seed={seed}")[0]["sizes"]

    assert sizes(0) == sizes(0) != sizes(9)
    assert toolkit.coordinate_check(*LAYERS, WIDTHS, progress=False).is_within
    grown, _ = printed(capsys, "scale", "--check", *LAYERS, WIDTHS, "power=0", code=1)
    assert set(grown) == documented("hpo scale --check")
    assert (grown["key"], grown["outside"], grown["is_within"]) == ("width", ["second", "first"], False)
    assert grown["slopes"]["10"] == pytest.approx({"first": 0.5, "second": 1.0}, abs=0.1)
    assert {path.name for path in Path().iterdir()} == {"coordinate_check.png"}


@pytest.mark.slow
@pytest.mark.parametrize(("least", "expected"), [(64, ["second"]), (16, [])])
def test_what_is_known_to_change_below_some_size_is_said_and_not_judged(capsys, monkeypatch, least, expected):
    known = {"scales": [], "rate": "lr", "holds_from": {"second": ("width", least)}}
    monkeypatch.setattr("tests.hpo.cli.test_scale.describe_scales", lambda config, over: known, raising=False)
    monkeypatch.setattr("tests.hpo.cli.test_scale.output_sizes", grows_in_the_second)
    check, err = printed(capsys, "scale", "--check", *LAYERS, WIDTHS, code=int(not expected))
    assert (check["expected"], check["outside"]) == (expected, [] if expected else ["second"])
    says = "second (+1.00 after 1 step) is known to change below width=64"
    assert (says in check["verdict"], says in err) == (bool(expected),) * 2
    says = refused(capsys, "scale", "--table", *LAYERS, WIDTHS, "+lr=0")
    assert "lr: must be above 0, given 0; a scale table multiplies this rate by powers of 2" in says


def grows_in_the_second(task):
    return {step: {"first": 1.0, "second": float(task["config"]["width"])} for step in task["steps"]}


@pytest.mark.slow
def test_the_picture_is_written_as_png_or_html(capsys):
    for kind, head in (("png", b"\x89PNG\r\n\x1a\n"), ("html", b"<!DOCTYP")):
        code, out, _ = hpo(capsys, "scale", "--check", *LAYERS, WIDTHS, "power=0", "--output", f"x.{kind}")
        assert (code, Path(f"x.{kind}").read_bytes()[:8]) == (1, head)
    assert "not within 0.2: 2 of 2 output sizes change with width; the steepest slopes: second (+1.0" in out


@pytest.mark.parametrize(("arguments", "words"), [
    ((), "--check, --table: give one of them, given neither"),
    (("--table", *LAW, "space.lr=[0.1,0.2]", "space.width=[1,2]"), "must have one hyperparameter, given 2: lr"),
    (("--table", *LAW, "space.lr=[0.1,0.2]", "strategy=random"), "must be grid"),
    (("--check", *LAYERS, "study.scales=[{width: 8}, {width: 4}]"), "study.scales: must set a key to a number"),
    (("--table", *LAW, "space.lr={choices: [0.1, 0.2]}"), "must have ordered values"),
    (("--table", *LAW, "space.lr=[0.1,0.2]", "--output", "x.png"), "--output: has no effect"),
    (("--check", "--output", "x.gif", *LAYERS, WIDTHS), ".png or .html"),
    (("--check", *LAYERS), "no function 'describe_scales' that returns"),
    (("--check", "objective=toys:score", *OWN, WIDTHS), "a function 'output_sizes'"),
    (("--check", *LAYERS, WIDTHS, "power=many"), "must return {step: {layer: number}} with steps 1, 2"),
])  # fmt: skip
def test_what_cannot_be_checked_or_makes_no_table_is_refused_and_leaves_nothing(capsys, arguments, words):
    assert words in refused(capsys, "scale", *arguments)
    assert not list(Path().iterdir())


@pytest.mark.slow
def test_the_table_is_a_grid_and_says_how_far_the_best_moves(capsys):
    shown, err = printed(capsys, "scale", "--table", *LAW, f"space.lr={list(RATES)}")
    assert set(shown) == documented("A study") | documented("hpo scale --table")
    assert (shown["study"], shown["done"], shown["budget"]) == ("scale-table-law", 15, 15)
    table = shown["table"]
    for width, scores in zip((8, 16, 32), table["scores"], strict=True):
        assert scores == pytest.approx([law({"width": width, "lr": rate}) for rate in RATES])
    assert (table["best"], table["moves"], table["cost"]) == ([0.1, 0.05, 0.025], 4, pytest.approx(2))
    assert "lr moves by a factor of up to 4; if other scales used the smallest scale's best lr, " in shown["verdict"]
    assert " would be up to 2 worse" in shown["verdict"]
    assert json.loads(Path(shown["files"]["report.json"]).read_text())["scales"]["table"] == table
    assert shown["verdict"] in err
    study = toolkit.scale_table(*LAW, f"space.lr={list(RATES)}", progress=False)
    assert study.trials.pivot_table("score", "study.scale", "lr").to_numpy().tolist() == table["scores"]


def test_of_the_toolkits_networks_scales_and_rates_are_known(capsys):
    tree, _ = printed(capsys, "scale", "--table", "training.lr=0.004", "--cfg", "job")
    assert [changes["model.d_model"] for changes in tree["study"]["scales"]] == [32, 64, 128, 256]
    assert tree["space"] == {"training": {"lr": {"values": [0.001, 0.002, 0.004, 0.008, 0.016, 0.032]}}}
    assert (tree["study"]["name"], tree["study"]["trials"]) == ("scale-table-digits", 24)
    tree, _ = printed(capsys, "scale", "--table", "--over", "depth", "space.model.dropout=[0.1,0.2]", "--cfg", "job")
    assert [changes["model.num_layers"] for changes in tree["study"]["scales"]] == [2, 4, 8, 16]
    assert tree["space"] == {"model": {"dropout": [0.1, 0.2]}}
