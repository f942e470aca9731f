"""Scores in different units are not compared, within a search and between studies."""

import json
from pathlib import Path

import pytest
import yaml

from hpo.errors import ConfigError
from hpo.study.basis.units import Unit, Units
from hpo.study.extension import extension_of
from tests.hpo.cli.commands import hpo, refused, searched
from tests.studies import config_from_dict, prepare_study, prepared, refuses, toy_config


def train(task):
    toy = task["config"]["toy"]
    return {"loss": 1 / toy["min_count"] + toy["lr"], "bits": toy["lr"]}


def describe_method(config):
    method = {"metrics": {"loss": "nats per token", "bits": "bits per byte"}}
    if config["toy"]["says"]:
        counts = {"toy.min_count": config["toy"]["min_count"]}
        method["counted_in"] = {"loss": {"unit": "tokens", "depends_on": counts}}
    return method


SEARCHED = {"toy": {"min_count": [1, 400], "lr": [0.1, 0.2]}}


def tree(space=SEARCHED, *, says=True, min_count=1, references=None, strategy="random", **study):
    config = toy_config(strategy, space, 2, f"{__name__}:train")
    config["toy"] = {"lr": 0.1, "min_count": min_count, "says": says, "rare": 1}
    config["study"] |= {"metric": "loss", "direction": "minimize", "references": references, **study}
    return config


LR = {"toy": {"lr": [0.1, 0.2]}}
POINTS = [{"lr": 0.1, "min_count": count, "says": True} for count in (1, 4)]
OF_SCALES = tree(LR, scales=[{"toy.min_count": 1}, {"toy.min_count": 400}], strategy="grid")


@pytest.mark.parametrize(("config", "command", "words"), [
    (tree(), ["search"], "depends on toy.min_count (searched); choose another metric (bits), or do not search toy.m"),
    (tree({"toy": {"rare": [1, 400]}}, references={"toy.min_count": "${toy.rare}"}), ["search"], "(searched)"),
    (tree({"toy": {"choices": POINTS}}), ["search"], "(searched); choose another metric (bits)"),
    (OF_SCALES, ["search"], "(changed by study.scales); choose another metric (bits), or remove toy.min_count from st"),
    (OF_SCALES, ["scale", "--table", "study.trials=4"], "(changed by study.scales); choose another metric (bits)"),
], ids=["searched", "by a reference", "as a choice", "scales", "table of scales"])  # fmt: skip
def test_a_metric_whose_unit_differs_between_trials_is_refused(capsys, config, command, words):
    Path("toy.yaml").write_text(yaml.safe_dump(config))
    line = refused(capsys, *command, "--config", "toy.yaml")
    assert "the unit of loss is tokens and depends on toy.min_count" in line
    assert words in line
    assert not Path("runs").exists()


def test_a_metric_whose_unit_is_the_same_in_each_trial_is_searched(capsys):
    assert json.loads((searched(capsys, tree(metric="bits")) / "report.json").read_text())["metric"]["name"] == "bits"
    prepare_study(config_from_dict(tree(LR)))
    scales = [{"toy.min_count": 4, "toy.rare": rare} for rare in (1, 2)]
    prepare_study(config_from_dict(tree(LR, scales=scales, strategy="grid")))


def test_values_with_the_same_unit_are_searched_and_compared(monkeypatch):
    alike = {"loss": {"unit": "tokens", "depends_on": {"toy.min_count": 1}, "alike": {"toy.min_count": [1, 2]}}}
    monkeypatch.setattr(f"{__name__}.describe_method", lambda _: {"metrics": {"loss": ""}, "counted_in": alike})

    def prepare(values):
        prepare_study(config_from_dict(tree({"toy": {"min_count": values}})))

    prepare([1, 2])
    refuses(ConfigError, r"depends on toy\.min_count \(searched\)", prepare, [1, 2, 3])
    one, two, three = (Units(["loss"], {"loss": Unit("tokens", {"c": count}, {"c": [1, 2]})}) for count in (1, 2, 3))
    assert (one.differences("loss", two), one.differences("loss", three)) == ({}, {"c": (1, 3)})


@pytest.mark.slow
def test_a_study_whose_objective_describes_its_unit_only_later_is_reported_resumed_and_reproduced(capsys, monkeypatch):
    folder = searched(capsys, tree(says=False))
    # The objective describes it now, the study's files do not.
    unit = {"loss": {"unit": "tokens", "depends_on": {"toy.min_count": 1}}}
    monkeypatch.setattr(f"{__name__}.describe_method", lambda _: {"metrics": {"loss": ""}, "counted_in": unit})
    for command in (["report", "toy"], ["resume", "toy", "study.trials=3"], ["report", "toy"], ["reproduce", "toy"]):
        code, out, err = hpo(capsys, *command)
        assert code == 0, out + err
        (folder / "described.json").write_text(json.dumps({"folds": 1, "method": describe_method(None)}))
    caution = json.loads((folder / "report.json").read_text())["cautions"][0]
    assert "scores of different trials are not comparable" in caution


@pytest.mark.slow
def test_studies_in_different_units_are_not_compared_imported_or_extended(capsys):
    counts = {"one": 1, "other": 400, "same": 1}
    studies = {name: searched(capsys, tree(LR, min_count=count, name=name)) for name, count in counts.items()}
    line = refused(capsys, "compare", "one", "other", is_silent=True)
    assert "the unit of loss (tokens) depends on toy.min_count, which is 1 in one and 400 in other" in line
    assert "scores of bits can be compared" in line
    assert hpo(capsys, "compare", "one", "same")[0] == 0
    with pytest.raises(ConfigError, match=r"study\.imports: .*toy\.min_count is 400 in the imported study"):
        prepare_study(config_from_dict(tree(LR, name="new", imports="other")))
    assert prepare_study(config_from_dict(tree(LR, name="new", imports="same"))).imports
    given = tree(LR, name="one") | {"toy": {**tree()["toy"], "min_count": 2}}
    with pytest.raises(ConfigError, match=r"toy\.min_count: would make new scores incomparable"):
        extension_of(prepared(studies["one"], tree(LR, name="one")), [], config_from_dict(given))
    line = refused(capsys, "extend", "one", "--climb", "toy.min_count=400", "++strategy.costs=[1,4]")
    assert "the unit of loss is tokens and depends on toy.min_count" in line
    path = studies["one"] / "config.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"space": SEARCHED}))
    line = refused(capsys, "compare", "same", "one")
    assert "searches toy.min_count, on which the unit of loss (tokens) depends" in line
