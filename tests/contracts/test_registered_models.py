"""What is promised of the winner in MLflow's model registry: the champion, once, and it predicts as `hpo predict`."""

import contextlib

import mlflow
import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow import MlflowClient

from tests.hpo.cli.commands import hpo
from tests.tracked import new_store, run, runs_of, synchronise, words_study

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
TEXTS = ["a good film", "the story was dreadful", "Ending", "very moving"]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reviews")
    with contextlib.chdir(folder):
        new_store(folder)
        study = words_study(folder, trials=8)
        return study, run(study).run


@pytest.fixture
def client(reviews, monkeypatch):
    study, _ = reviews
    monkeypatch.chdir(study.folder.path.parent)
    mlflow.set_tracking_uri(study.config.track.uri)
    return MlflowClient()


def versions(client, name="reviews"):
    return sorted(client.search_model_versions(f"name = '{name}'"), key=lambda version: int(version.version))


@pytest.mark.slow
def test_the_champion_predicts_on_raw_text_as_the_command_does(reviews, client, tmp_path, capsys):
    study, _ = reviews
    (tmp_path / "texts").write_text("\n".join(TEXTS))
    code, out, _ = hpo(capsys, "predict", str(study.folder.path), "--input", str(tmp_path / "texts"))
    assert code == 0
    expected = out.splitlines()
    assert set(expected) == {"good", "bad"}, "each label is predicted"
    model = mlflow.pyfunc.load_model("models:/reviews@champion")
    for texts in (TEXTS, pd.DataFrame({"review": TEXTS, "other": range(4)}), pd.Series(TEXTS), np.array(TEXTS)):
        assert model.predict(texts) == expected
    assert model.predict(TEXTS[0]) == expected[:1]
    for bias, label in ((100.0, "good"), (-100.0, "bad")):
        assert set(model.predict(TEXTS, params={"bias": bias})) == {label}


@pytest.mark.slow
def test_the_champion_is_the_winner_on_the_studys_page_and_a_moved_alias_stays_where_it_is(reviews, client):
    study, result = reviews
    (version,) = versions(client)
    parent, _ = runs_of(study)
    assert client.get_registered_model("reviews").aliases == {"champion": int(version.version)}
    assert (version.tags["hpo.trial"], version.run_id) == (str(result.winner.number), parent.info.run_id)
    assert parent.data.tags["hpo.model"] == f"models:/reviews/{version.version}"
    client.delete_registered_model_alias("reviews", "champion")
    assert synchronise(study)
    assert [each.version for each in versions(client)] == [version.version]
    assert (len(client.search_logged_models(["1"])), client.get_registered_model("reviews").aliases) == (1, {})
    client.set_registered_model_alias("reviews", "champion", version.version)


@pytest.mark.slow
def test_a_registered_model_holds_no_code_and_no_pickle(client, tmp_path):
    folder = tmp_path / "model"
    mlflow.artifacts.download_artifacts("models:/reviews@champion", dst_path=str(folder))
    names = {path.name for path in folder.rglob("*") if path.is_file()} - {"MLmodel", "registered_model_meta"}
    assert all(name.endswith((".safetensors", ".json", ".yaml", ".txt")) for name in names), names
    flavor = yaml.safe_load((folder / "MLmodel").read_text())["flavors"]["python_function"]
    assert (flavor["loader_module"], flavor.get("code")) == ("hpo.track.mlflow_model", None)
    assert "python_model" not in flavor
    assert "hpo-transformer==" in (folder / "requirements.txt").read_text()


@pytest.mark.nightly
def test_another_winner_becomes_the_next_version_and_the_champion(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    client = MlflowClient(new_store(tmp_path))
    winners = [str(run(words_study(tmp_path, trials=trials)).run.winner.number) for trials in (1, 24)]
    assert winners[0] != winners[1]
    assert [v.tags["hpo.trial"] for v in versions(client)] == winners
    assert client.get_registered_model("reviews").aliases == {"champion": 2}
