"""What people of MLflow and Lightning type."""

from pathlib import Path

import mlflow
import pytest
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

import hpo
from hpo.commands.given.settings import search_tree, with_settings
from hpo.track.store import absolute_uri
from tests.hpo.cli.commands import hpo as command
from tests.hpo.cli.commands import refused
from tests.hpo.commands.searched import found, outcome_of
from tests.tracked import new_store


def train(config, trial):
    for epoch in range(2):
        trial.report({"epoch": epoch, "val": {"loss": config["lr"] / (epoch + 1), "top": {"5": 0.5}}})
    return {"val": {"loss": config["lr"], "top": {"5": 1}}}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow's own.
def test_groups_of_metrics_are_one_metric_each_everywhere():
    study = found(train, metric="val/loss", direction="minimize", settings={"track": "mlflow"}, trials=2)
    assert study.best.score == study.best.config["lr"] == study.trials["score"].min()
    assert outcome_of(study).metrics["val/top/5"] == 1
    assert "val/loss" in (study.folder / "report.md").read_text()
    client = mlflow.MlflowClient("sqlite:///mlflow.db")
    runs = client.search_runs([client.get_experiment_by_name("hpo").experiment_id])
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert {"fold_0/val/loss", "fold_0/val/top/5"} <= children[0].data.metrics.keys()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_autolog_and_log_calls_write_is_in_a_run_of_each_trial():
    new_store(Path.cwd())

    def fit(config, trial):
        mlflow.sklearn.autolog(log_models=False, silent=True)
        features, labels = load_iris(return_X_y=True)
        with mlflow.start_run():
            tree = DecisionTreeClassifier(max_depth=config["depth"]).fit(features, labels)
            mlflow.log_metric("leaves", tree.get_n_leaves())
            Path("tree.txt").write_text(trial.mlflow_run_id)
            mlflow.log_artifact("tree.txt")
        return tree.score(features, labels)

    found(fit, space={"depth": [1, 2, 3]}, trials=3, settings={"track": "mlflow"})
    client = mlflow.MlflowClient(absolute_uri("sqlite:///mlflow.db"))
    runs = client.search_runs([each.experiment_id for each in client.search_experiments()])
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert {client.get_experiment(run.info.experiment_id).name for run in runs} == {"hpo"}
    trials = [run for run in runs if run.data.tags["hpo.kind"] == "trial"]
    assert (len(trials), len(runs)) == (3, 4)
    for run in trials:
        assert run.data.params["max_depth"] == run.data.params["depth"]
        assert {"training_accuracy_score", "leaves", "score"} <= run.data.metrics.keys()
        assert "tree.txt" in [file.path for file in client.list_artifacts(run.info.run_id)]


ADDRESS = "http://127.0.0.1:5001"
REST = {"patience": 60, "own_lines": None, "artifacts": False}


@pytest.fixture
def surroundings(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", ADDRESS)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    return monkeypatch


def sections(*overrides):
    """Return the section `track` of a search from a command line, and from Python."""
    settings = dict(override.split("=") for override in overrides)
    tree = search_tree("a:f(config)", {"x": [1, 2]}, {"x": 1}, "random")
    named = with_settings(tree, {"study.name": "a", "study.metric": "score", "study.direction": "maximize"} | settings)
    return [hpo.compose(*overrides)["track"], named["track"]]


@pytest.mark.usefixtures("surroundings")
def test_mlflows_own_variables_are_followed_and_the_studys_keys_win():
    for track in sections():
        assert track == {"name": "mlflow", "uri": ADDRESS, "experiment": "theirs"} | REST
    for track in sections("track.uri=sqlite:///mlflow.db", "track.experiment=mine"):
        assert track == {
            "name": "mlflow",
            "uri": "sqlite:///mlflow.db",
            "experiment": "mine",
            "patience": 60,
            "own_lines": None,
            "artifacts": False,
        }
    for track in sections("track=none"):
        assert track["name"] == "none"
    assert found(lambda config: config["lr"], trials=1).config["track"]["name"] == "none"


@pytest.mark.usefixtures("surroundings")
def test_the_page_that_opens_is_that_of_the_variable(capsys):
    said = f"MLflow: {ADDRESS} (MLFLOW_TRACKING_URI)\n"
    page = "/#/experiments?workflowType=machine_learning\n"
    assert command(capsys, "ui", "--no-browser") == (0, ADDRESS + page, said)
    assert command(capsys, "ui", "--no-browser", "--uri", "http://127.0.0.1:7") == (0, "http://127.0.0.1:7" + page, "")


def test_a_variable_that_names_no_store_is_refused(capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///none.db")
    assert "sqlite:///none.db has no runs yet" in refused(capsys, "ui", "--no-browser")


def test_an_address_with_a_password_is_kept_by_its_name(surroundings):
    surroundings.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:5001")
    for track in sections():
        assert track["uri"] == "${oc.env:MLFLOW_TRACKING_URI}"
        assert track["experiment"] == "theirs"


def test_without_variables_the_store_is_a_file(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    for track in sections():
        assert track == {
            "name": "mlflow",
            "uri": "sqlite:///mlflow.db",
            "experiment": "hpo",
            "patience": 60,
            "own_lines": None,
            "artifacts": False,
        }


@pytest.mark.nightly
def test_a_study_goes_on_where_it_was_begun_whatever_the_variables_are_later(monkeypatch, capsys):
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
    assert command(capsys, *typed, "study.trials=3", "track.uri=sqlite:///chosen.db")[0] == 0
    assert Path("chosen.db").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_notes_are_tags_and_metrics_and_files_of_a_training_are_artifacts():
    new_store(Path.cwd())

    def noted(config, trial):
        trial.note("checkpoint", "s3://here")
        trial.note("peak", 3.5)
        (trial.dir / "plot.txt").write_text("x")
        return config["lr"]

    found(noted, space={"lr": [0.1, 0.2]}, trials=2, settings={"track": "mlflow", "track.artifacts": True})
    client = mlflow.MlflowClient(absolute_uri("sqlite:///mlflow.db"))
    runs = client.search_runs([client.get_experiment_by_name("hpo").experiment_id])
    trials = [run for run in runs if run.data.tags["hpo.kind"] == "trial"]
    assert [run.data.tags["note.checkpoint"] for run in trials] == ["s3://here"] * 2
    assert [run.data.metrics["fold_0/final_peak"] for run in trials] == [3.5] * 2
    assert [file.path for file in client.list_artifacts(trials[0].info.run_id, "files")] == ["files/plot.txt"]
