"""Habits from W&B, NNI, SciPy and MLflow. More: `tests/hpo/integrations`, `tests/contracts/test_own_lines.py`."""

from pathlib import Path

import pytest
from scipy import stats

import hpo as toolkit
from hpo.commands.given.settings import search_tree, with_settings
from hpo.config.composing.compose import compose_config
from hpo.config.documents import parse_yaml
from hpo.trials.space.peers import of_peer
from hpo.trials.space.written import as_meant
from tests.hpo.cli.commands import hpo
from tests.hpo.commands.searched import found, outcome_of
from tests.studies import refuses

ADDRESS, SECRET, FILE = "http://127.0.0.1:5001", "http://me:secret@127.0.0.1:5001", "sqlite:///mlflow.db"


def nni(kind, value):
    return {"_type": kind, "_value": value}


def wandb(kind, **settings):
    return {"distribution": kind, **settings}


@pytest.mark.parametrize(("given", "read"), [
    ({"min": 0.0, "max": 1}, {"low": 0.0, "high": 1.0}),
    (wandb("int_uniform", min=1, max=8), {"low": 1, "high": 8, "integer": True}),
    (wandb("q_uniform", min=0, max=1, q=0.25), {"low": 0.0, "high": 1.0, "step": 0.25}),
    (wandb("log_uniform_values", min=1e-5, max=0.1), {"low": 1e-5, "high": 0.1, "log": True}),
    (wandb("categorical", values=[3, 1]), {"choices": [3, 1]}), ({"value": "adam"}, {"choices": ["adam"]}),
    # These are our own form, or a group of hyperparameters.
    ({"values": [1, 2]}, None), ({"min": {"low": 1, "high": 2}, "max": [1, 2]}, None),
    (nni("choice", ["relu", "gelu"]), {"choices": ["relu", "gelu"]}),
    (nni("uniform", [0, 1]), {"low": 0.0, "high": 1.0}),
    (nni("loguniform", [1e-5, 1e-1]), {"low": 1e-5, "high": 0.1, "log": True}),
    (nni("quniform", [0, 10, 2]), {"low": 0, "high": 10, "step": 2}),
    (nni("randint", [1, 9]), {"low": 1, "high": 8, "integer": True}),
    (stats.loguniform(1e-5, 1e-1), {"low": 1e-5, "high": 0.1, "log": True}),
    (stats.uniform(2, 3), {"low": 2.0, "high": 5.0}), (stats.randint(1, 9), {"low": 1, "high": 8, "integer": True}),
])  # fmt: skip
def test_a_parameter_of_another_tool_is_a_dimension(given, read):
    dimension = of_peer(given, "space.lr")
    assert dimension == read
    assert all(type(dimension[end]) in (int, float) for end in ("low", "high") if end in (dimension or ()))


@pytest.mark.parametrize(("given", "says"), [
    (wandb("normal", mu=0, sigma=1), "cannot be W&B's normal; give hpo.log"),
    ({"values": [1, 2], "probabilities": [0.9, 0.1]}, "cannot be W&B's probabilities"),
    (nni("normal", [0, 1]), "cannot be NNI's normal; give hpo.log"),
    (nni("quniform", [1, 10, 2]), "cannot be a range from 1 to 10 with step 2, because .*; give a list"),
    (nni("choice", [{"_name": "conv"}]), "cannot be a choice with nested dimensions"),
    (wandb("uniform", min=0), r"W&B's uniform must have numbers as min and max, given \{'distribution': 'uniform', 'm"),
    (nni("uniform", [1]), r"NNI's uniform must have 2 numbers as _value, given \[1\]"),
    (nni("choice", 3), "must have a list of values, given 3"),
    (stats.norm(0, 1), r"cannot be SciPy's .*; give hpo.log\(1e-5, 1e-1\), a range"),
    ({1, 2}, r"must be a dimension, given .*\(a .*set.*\); give hpo.log"),
])  # fmt: skip
def test_what_no_space_has_is_refused(given, says):
    refuses(toolkit.HpoError, f"^space.net.lr: {says}", found, lambda config: 1.0, space={"net": {"lr": given}})


@pytest.mark.parametrize(("typed", "read"), [
    ("{distribution: log_uniform_values, min: 1e-5, max: 1e-1}", {"low": 1e-5, "high": 0.1, "log": True}),
    ("{min: 1, max: 8}", {"low": 1, "high": 8, "integer": True}),
    ("{_type: loguniform, _value: [1e-5, 1e-1]}", {"low": 1e-5, "high": 0.1, "log": True}),
])  # fmt: skip
def test_a_parameter_in_yaml_or_on_the_command_line_is_a_dimension(typed, read):
    composed = compose_config("search", ["space=none", f"space.training.lr={typed}"])["space"]
    written = parse_yaml(f"training: {{lr: {typed}}}", "space")
    assert as_meant(composed) == as_meant(written) == {"training": {"lr": read}}


def test_the_groups_of_a_nested_sweep_are_groups_of_the_configuration():
    def train(config):
        optimizer = config["optimizer"]
        assert (optimizer.keys(), optimizer["momentum"]) == ({"learning_rate", "momentum", "schedule"}, 0.9)
        return optimizer["learning_rate"] + optimizer["schedule"]["warmup"]

    schedule = {"parameters": {"warmup": {"min": 0.0, "max": 0.5}}}
    optimizer = {"learning_rate": {"values": [0.01, 0.001]}, "momentum": {"value": 0.9}, "schedule": schedule}
    nested = {"optimizer": {"parameters": optimizer}}
    assert found(train, space=nested).trials["state"].tolist() == ["complete"] * 4
    assert as_meant(nested)["optimizer"].keys() == {"learning_rate", "momentum", "schedule"}
    # A group that the configuration calls so stays one.
    own = {"net": {"parameters": {"lr": {"values": [1, 2]}}}}
    assert as_meant(own, {"net": {"parameters": {"lr": 1}}}) == own


def test_a_whole_sweep_names_its_part():
    sweep = {
        "method": "bayes",
        "metric": {"name": "loss", "goal": "minimize"},
        "parameters": {"lr": {"values": [1, 2]}},
    }
    with pytest.raises(toolkit.HpoError, match=r"given the whole sweep \(in Python, give space=sweep"):
        found(lambda config: 1.0, space=sweep)
    assert set(found(lambda config: config["lr"], space=sweep["parameters"]).trials["lr"]) == {1, 2}


def test_groups_of_metrics_are_one_metric_each():
    def train(config, trial):
        trial.report({"val": {"loss": 2 * config["lr"], "top": {"5": 0.5}}})
        trial.report({"val": {"loss": config["lr"], "top": {"5": 1}, "text": "left out"}})

    study = found(train, metric="val/loss", direction="minimize", trials=2)
    assert study.best.score == study.best.config["lr"] == study.trials["score"].min()
    assert outcome_of(study).metrics["val/top/5"] == 1
    assert "val/loss" in (study.folder / "report.md").read_text()


def sections(*overrides):
    settings = dict(override.split("=") for override in overrides)
    tree = search_tree("a:f(config)", {"x": [1, 2]}, {"x": 1}, "random")
    named = with_settings(tree, {"study.name": "a", "study.metric": "score", "study.direction": "maximize"} | settings)
    return [toolkit.compose(*overrides)["track"], named["track"]]


@pytest.mark.parametrize(("address", "overrides", "uri", "experiment"), [
    (ADDRESS, (), ADDRESS, "theirs"), (ADDRESS, (f"track.uri={FILE}", "track.experiment=mine"), FILE, "mine"),
    (SECRET, (), "${oc.env:MLFLOW_TRACKING_URI}", "theirs"), (None, (), FILE, "hpo"),
], ids=["variables", "keys of the study", "a password", "neither"])  # fmt: skip
def test_mlflows_own_variables_are_followed_and_the_studys_keys_win(monkeypatch, address, overrides, uri, experiment):
    if address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    rest = {"patience": 60, "own_lines": None, "artifacts": False}
    assert sections(*overrides) == [{"name": "mlflow", "uri": uri, "experiment": experiment} | rest] * 2
    assert [track["name"] for track in sections("track=none")] == ["none"] * 2


def test_the_page_that_opens_is_that_of_the_variable(capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", ADDRESS)
    said, page = f"MLflow: {ADDRESS} (MLFLOW_TRACKING_URI)\n", "/#/experiments?workflowType=machine_learning\n"
    assert hpo(capsys, "ui", "--no-browser") == (0, ADDRESS + page, said)
    assert hpo(capsys, "ui", "--no-browser", "--uri", "http://127.0.0.1:7") == (0, "http://127.0.0.1:7" + page, "")


@pytest.mark.nightly
def test_a_study_continues_with_the_settings_of_its_start_whatever_the_variables_are_later(monkeypatch, capsys):
    Path("shown.py").write_text("def train(config):\n    return config['lr']\n")
    typed = ("search", "objective=shown:train(config)", "+lr=0.1", "space.lr=[0.1,0.2,0.3]", "dispatch=local")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///theirs.db")
    assert hpo(capsys, *typed, "study.trials=1")[0] == 0
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "other")
    _, out, err = hpo(capsys, *typed, "study.trials=2")
    begun = "track.uri=sqlite:///theirs.db, track.experiment=hpo"
    assert f"study 'train' continues with its earlier MLflow settings: {begun}" in out + err
    assert not Path("mlflow.db").exists()
