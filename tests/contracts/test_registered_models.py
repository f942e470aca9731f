"""What is promised of the winner in MLflow's model registry: the champion, once, and it predicts as `hpo predict`."""

import contextlib

import mlflow
import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow import MlflowClient

from tests.hpo.cli.commands import QUICK, hpo
from tests.tracked import new_store, run, runs_of, synchronise, words_study

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

TEXTS = ["a good film", "the story was dreadful", "Ending", "very moving"]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """Return a finished study that keeps models, its folder, and how it ended."""
    folder = tmp_path_factory.mktemp("reviews")
    new_store(folder)
    with contextlib.chdir(folder):
        study = words_study(folder, trials=8)
        return study, folder, run(study)


@pytest.fixture
def in_folder(reviews, monkeypatch):
    _, folder, _ = reviews
    monkeypatch.chdir(folder)
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")


def versions(client, name="reviews"):
    return sorted(client.search_model_versions(f"name = '{name}'"), key=lambda version: int(version.version))


def champion():
    return mlflow.pyfunc.load_model("models:/reviews@champion")


@pytest.mark.slow
def test_the_champion_predicts_on_raw_text_as_the_command_does(reviews, in_folder, tmp_path, capsys):
    study, _, _ = reviews
    (tmp_path / "texts").write_text("\n".join(TEXTS))
    code, out, _ = hpo(capsys, "predict", str(study.folder.path), "--input", str(tmp_path / "texts"))
    assert code == 0
    expected = out.splitlines()
    assert set(expected) == {"good", "bad"}, "both labels are told apart"
    model = champion()
    assert model.predict(TEXTS) == expected
    assert model.predict(pd.DataFrame({"review": TEXTS, "other": range(4)})) == expected
    assert model.predict(pd.Series(TEXTS)) == expected
    assert model.predict(np.array(TEXTS)) == expected
    assert model.predict(TEXTS[0]) == expected[:1]


@pytest.mark.slow
def test_options_of_the_objective_are_parameters_of_the_model(reviews, in_folder):
    assert set(champion().predict(TEXTS, params={"bias": 100.0})) == {"good"}
    assert set(champion().predict(TEXTS, params={"bias": -100.0})) == {"bad"}


@pytest.mark.slow
def test_the_champion_is_the_winner_and_stands_on_the_study_s_page(reviews, in_folder):
    study, _, result = reviews
    client = MlflowClient()
    (version,) = versions(client)
    parent, _ = runs_of(study)
    assert client.get_registered_model("reviews").aliases == {"champion": int(version.version)}
    assert version.tags["hpo.trial"] == str(result.run.winner.number)
    assert version.run_id == parent.info.run_id
    assert parent.data.tags["hpo.model"] == f"models:/reviews/{version.version}"
    (output,) = parent.outputs.model_outputs
    assert version.source == f"models:/{output.model_id}"
    assert client.get_logged_model(output.model_id).status == "READY"


@pytest.mark.slow
def test_a_registered_model_holds_no_code_and_no_pickle(reviews, in_folder, tmp_path):
    folder = mlflow.artifacts.download_artifacts("models:/reviews@champion", dst_path=str(tmp_path / "model"))
    names = sorted(p.name for p in (tmp_path / "model").rglob("*") if p.is_file())
    allowed = ("MLmodel", "registered_model_meta")
    assert all(name in allowed or name.endswith((".safetensors", ".json", ".yaml", ".txt")) for name in names), names
    described = yaml.safe_load((tmp_path / "model" / "MLmodel").read_text())
    flavor = described["flavors"]["python_function"]
    assert flavor["loader_module"] == "hpo.track.mlflow_model"
    assert flavor.get("code") is None
    assert "python_model" not in flavor
    requirements = (tmp_path / "model" / "requirements.txt").read_text()
    assert "hpo-transformer==" in requirements
    assert folder


@pytest.mark.nightly
def test_a_study_that_is_sent_twice_has_one_version_and_a_moved_alias_stays_where_it_is(reviews, in_folder):
    study, _, _ = reviews
    client = MlflowClient()
    before = versions(client)
    client.delete_registered_model_alias("reviews", "champion")
    assert synchronise(study)
    assert [v.version for v in versions(client)] == [v.version for v in before]
    assert len(client.search_logged_models(["1"])) == 1
    assert client.get_registered_model("reviews").aliases == {}
    client.set_registered_model_alias("reviews", "champion", versions(client)[0].version)


@pytest.mark.nightly
def test_another_winner_becomes_the_next_version_and_the_champion(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new_store(tmp_path)
    first = run(words_study(tmp_path, trials=1))
    second = run(words_study(tmp_path, trials=24))
    winners = [str(result.run.winner.number) for result in (first, second)]
    assert winners[0] != winners[1]
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    assert [v.tags["hpo.trial"] for v in versions(client)] == winners
    assert client.get_registered_model("reviews").aliases == {"champion": 2}


@pytest.mark.nightly
def test_a_transformer_on_rows_of_numbers_predicts_from_arrays_and_tables(tmp_path, monkeypatch, capsys):
    """The default study, in small: what its champion says of the digits is what the checkpoint says of them."""
    from sklearn.datasets import load_digits

    from model.objective import predict

    new_store(tmp_path)
    monkeypatch.chdir(tmp_path)
    code, _, _ = hpo(capsys, "search", *(word for word in QUICK if word != "track=none"), "split.folds=1")
    assert code == 0
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    model = mlflow.pyfunc.load_model("models:/digits@champion")
    images = load_digits().images[:20]
    (checkpoint,) = (tmp_path / "runs/digits/checkpoints").glob("trial_*")
    expected = predict(str(checkpoint), images.tolist(), {})
    assert len(set(expected)) > 1
    assert model.predict(images) == expected
    assert model.predict(images.reshape(20, 64)) == expected
    assert model.predict(pd.DataFrame(images.reshape(20, 64))) == expected
