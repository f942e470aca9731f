"""What people of MLflow type: its variables. What is logged is in `tests/contracts/test_own_lines.py`."""

from pathlib import Path

import pytest

import hpo
from hpo.commands.given.settings import search_tree, with_settings
from tests.hpo.cli.commands import hpo as command

ADDRESS, SECRET, FILE = "http://127.0.0.1:5001", "http://me:secret@127.0.0.1:5001", "sqlite:///mlflow.db"


def sections(*overrides):
    settings = dict(override.split("=") for override in overrides)
    tree = search_tree("a:f(config)", {"x": [1, 2]}, {"x": 1}, "random")
    named = with_settings(tree, {"study.name": "a", "study.metric": "score", "study.direction": "maximize"} | settings)
    return [hpo.compose(*overrides)["track"], named["track"]]


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
    assert command(capsys, "ui", "--no-browser") == (0, ADDRESS + page, said)
    assert command(capsys, "ui", "--no-browser", "--uri", "http://127.0.0.1:7") == (0, "http://127.0.0.1:7" + page, "")


@pytest.mark.nightly
def test_a_study_continues_with_the_settings_of_its_start_whatever_the_variables_are_later(monkeypatch, capsys):
    Path("shown.py").write_text("def train(config):\n    return config['lr']\n")
    typed = ("search", "objective=shown:train(config)", "+lr=0.1", "space.lr=[0.1,0.2,0.3]", "dispatch=local")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///theirs.db")
    assert command(capsys, *typed, "study.trials=1")[0] == 0
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "other")
    _, out, err = command(capsys, *typed, "study.trials=2")
    begun = "track.uri=sqlite:///theirs.db, track.experiment=hpo"
    assert f"study 'train' continues with the MLflow settings of its start: {begun}" in out + err
    assert not Path("mlflow.db").exists()
