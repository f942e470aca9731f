"""Scores that are counted in different things are not compared: within a search, and between studies."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from hpo.config.study_config import config_from_dict
from hpo.errors import ConfigError
from hpo.study.basis.units import Unit, Units
from hpo.study.extension import extension_of
from hpo.study.preparing.preparation import prepare_study
from tests.hpo.cli.commands import hpo, refused, searched
from tests.studies import prepared, toy_config


def train(task):
    """A loss that is lower the more is read as unknown, and bits that do not change with that."""
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


@pytest.mark.parametrize(
    ("space", "references"),
    [
        (SEARCHED, None),
        ({"toy": {"rare": [1, 400]}}, {"toy.min_count": "${toy.rare}"}),
        (
            {
                "toy": {
                    "choices": [{"lr": 0.1, "min_count": 1, "says": True}, {"lr": 0.1, "min_count": 4, "says": True}]
                }
            },
            None,
        ),
    ],
)
def test_a_metric_that_means_something_else_in_each_trial_is_refused(capsys, space, references):
    Path("toy.yaml").write_text(yaml.safe_dump(tree(space, references=references)))
    line = refused(capsys, "search", "--config", "toy.yaml", is_silent=True)
    assert "because the unit of loss is tokens and depends on toy.min_count, which is searched; " in line
    assert "choose one of bits, or do not search toy.min_count" in line
    assert not Path("runs").exists()


@pytest.mark.parametrize("command", [["search"], ["scale", "--table"]])
def test_a_metric_that_means_something_else_at_each_scale_is_refused(capsys, command):
    scales = [{"toy.min_count": 1}, {"toy.min_count": 400}]
    Path("toy.yaml").write_text(yaml.safe_dump(tree({"toy": {"lr": [0.1, 0.2]}}, scales=scales, strategy="grid")))
    line = refused(capsys, *command, "--config", "toy.yaml", *([] if command == ["search"] else ["study.trials=4"]))
    assert "the unit of loss is tokens and depends on toy.min_count, which study.scales changes; " in line
    assert "choose one of bits, or remove toy.min_count from study.scales" in line
    assert not Path("runs").exists()


def test_a_key_that_is_the_same_at_each_scale_changes_nothing(capsys):
    scales = [{"toy.min_count": 4, "toy.rare": 1}, {"toy.min_count": 4, "toy.rare": 2}]
    prepare_study(config_from_dict(tree({"toy": {"lr": [0.1, 0.2]}}, scales=scales, strategy="grid")))


def test_a_climb_to_another_unit_is_refused(capsys):
    searched(capsys, tree({"toy": {"lr": [0.1, 0.2]}}))
    line = refused(capsys, "extend", "toy", "--climb", "toy.min_count=400", "++strategy.costs=[1,4]")
    assert "toy.min_count" in line
    assert "the unit of loss is tokens" in line


def test_a_metric_that_means_the_same_in_each_trial_is_searched(capsys):
    folder = searched(capsys, tree(metric="bits"))
    assert json.loads((folder / "report.json").read_text())["metric"]["name"] == "bits"
    prepare_study(config_from_dict(tree({"toy": {"lr": [0.1, 0.2]}})))


ALIKE = {"loss": {"unit": "tokens", "depends_on": {"toy.min_count": 1}, "alike": {"toy.min_count": [1, 2]}}}


@pytest.mark.parametrize(("values", "is_alike"), [([1, 2], True), ([1, 2, 3], False)])
@pytest.mark.parametrize("form", ["list", "choices"])
def test_values_under_which_a_metric_is_the_same_are_searched(monkeypatch, values, is_alike, form):
    monkeypatch.setattr(f"{__name__}.describe_method", lambda _: {"metrics": {"loss": ""}, "counted_in": ALIKE})
    config = config_from_dict(tree({"toy": {"min_count": values if form == "list" else {form: values}}}))
    if is_alike:
        prepare_study(config)
        return
    with pytest.raises(ConfigError, match=r"depends on toy\.min_count, which is searched"):
        prepare_study(config)


def test_studies_of_values_under_which_a_metric_is_the_same_are_compared():
    one, two, three = (
        Units(["loss"], {"loss": Unit("tokens", {"toy.min_count": count}, {"toy.min_count": [1, 2]})})
        for count in (1, 2, 3)
    )
    assert one.differences("loss", two) == {}
    assert one.differences("loss", three) == {"toy.min_count": (1, 3)}


def test_what_cannot_be_read_is_said(capsys, monkeypatch):
    bad = {"metrics": {"loss": ""}, "counted_in": {"loss": {"unit": "tokens", "depend_on": {}}}}
    monkeypatch.setattr(f"{__name__}.describe_method", lambda _: bad)
    Path("toy.yaml").write_text(yaml.safe_dump(tree()))
    line = refused(capsys, "search", "--config", "toy.yaml")
    assert f"objective: {__name__}.describe_method: counted_in.loss.depend_on" in line


def test_a_study_whose_objective_says_it_only_later_is_reported_resumed_and_reproduced(capsys, monkeypatch):
    folder = searched(capsys, tree(says=False))
    # The objective says it now, the study's files do not.
    unit = {"loss": {"unit": "tokens", "depends_on": {"toy.min_count": 1}}}
    monkeypatch.setattr(f"{__name__}.describe_method", lambda _: {"metrics": {"loss": ""}, "counted_in": unit})
    assert hpo(capsys, "report", "toy")[0] == 0
    assert hpo(capsys, "resume", "toy", "study.trials=3")[0] == 0
    (folder / "described.json").write_text(json.dumps({"folds": 1, "method": describe_method(None)}))
    assert hpo(capsys, "report", "toy")[0] == 0
    assert (
        "scores of different trials are not comparable"
        in json.loads((folder / "report.json").read_text())["cautions"][0]
    )
    assert hpo(capsys, "reproduce", "toy")[0] == 0
    shutil.move("runs/toy", "published")
    assert hpo(capsys, "reproduce", "published")[0] == 0
    code, out, err = hpo(capsys, "search", "--replay", "published", "dispatch=local", "track=none")
    assert code == 0, out + err


@pytest.fixture
def studies(capsys):
    """Two studies that differ in what the loss is counted in, and one as the first."""
    space = {"toy": {"lr": [0.1, 0.2]}}
    counts = {"one": 1, "other": 400, "same": 1}
    return {name: searched(capsys, tree(space, min_count=count, name=name)) for name, count in counts.items()}


def test_studies_whose_metric_is_counted_in_something_else_are_not_compared(capsys, studies):
    line = refused(capsys, "compare", "one", "other", is_silent=True)
    assert "toy.min_count changes the unit of loss (tokens), given 1 in one and 400 in other" in line
    assert "scores of bits can be compared" in line
    assert hpo(capsys, "compare", "one", "same")[0] == 0


def test_a_study_whose_own_trials_do_not_compare_is_not_compared(capsys, studies):
    path = studies["one"] / "config.yaml"
    config = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(config | {"space": SEARCHED}))
    line = refused(capsys, "compare", "same", "one")
    assert "because the study searches toy.min_count, which changes the unit of loss (tokens)" in line


def test_trials_are_not_imported_where_they_are_counted_in_something_else(studies):
    space = {"toy": {"lr": [0.1, 0.2]}}
    with pytest.raises(
        ConfigError, match=r"study\.imports: .* the unit of loss depends on toy\.min_count, which is 400"
    ):
        prepare_study(config_from_dict(tree(space, name="new", imports="other")))
    assert prepare_study(config_from_dict(tree(space, name="new", imports="same"))).imports


def test_trials_are_not_extended_to_be_counted_in_something_else(tmp_path):
    config = tree({"toy": {"lr": [0.1, 0.2]}})
    given = {**config, "toy": {**config["toy"], "min_count": 2}}
    with pytest.raises(ConfigError, match=r"toy\.min_count: would make new scores incomparable"):
        extension_of(prepared(tmp_path, config), [], config_from_dict(given))
