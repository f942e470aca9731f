"""A copied study: it is told, made a study of its own by `--as`, and `hpo sync` says what MLflow really has."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from mlflow import MlflowClient

from hpo.errors import TrackError
from hpo.track.addresses import TrackedStudy, pages_of_study
from hpo.track.store import download_study
from tests.hpo.cli.commands import hpo, refused, searched
from tests.studies import rows, toy_config
from tests.tracked import new_store

STORE = "sqlite:///mlflow.db"
# Of libraries that MLflow brings along.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.slow
def test_a_copy_of_its_own_has_the_same_trials_and_another_identity(capsys):
    searched(capsys, toy_config("evolutionary", trials=4))
    code, out, err = hpo(capsys, "resume", "toy", "--as", "deeper", "study.trials=7")
    assert code == 0, err
    assert "study deeper: 7 trials" in out
    assert rows(Path("runs/deeper/trials.csv"))[:4] == rows(Path("runs/toy/trials.csv"))
    ids = {}
    for name in ("toy", "deeper"):
        with sqlite3.connect(f"runs/{name}/study.db") as database:
            assert database.execute("SELECT study_name FROM studies").fetchall() == [(name,)]
            (ids[name],) = database.execute("SELECT value_json FROM study_user_attributes WHERE key = 'id'").fetchone()
    assert ids["toy"] != ids["deeper"]
    # Both go on, and are reproduced, as if there were no other.
    searched(capsys, toy_config("evolutionary", trials=7))
    assert rows(Path("runs/toy/trials.csv")) == rows(Path("runs/deeper/trials.csv"))
    assert hpo(capsys, "resume", "deeper")[0] == hpo(capsys, "reproduce", "deeper")[0] == 0


def test_a_name_that_cannot_be_is_refused_and_nothing_is_made(capsys):
    searched(capsys, toy_config("evolutionary", trials=1))
    before = sorted(Path("runs").iterdir())
    for name, words in (("toy", "runs/toy already exists"), ("../x", "must be 1 to 100 letters")):
        assert words in refused(capsys, "resume", "toy", "--as", name)
    for change in ("study.trails=9", "study.seed=5"):
        refused(capsys, "resume", "toy", "--as", "other", change)
    assert sorted(Path("runs").iterdir()) == before


@pytest.mark.slow
def test_a_copy_by_hand_is_told_that_it_shares_its_name(capsys):
    searched(capsys, toy_config("evolutionary", trials=1))
    shutil.copytree("runs/toy", "runs/copy")
    code, out, _ = hpo(capsys, "resume", "copy")
    assert (code, "runs/copy is a copy of study 'toy'" in out) == (0, True)
    assert "hpo resume runs/copy --as NEW" in out


def test_each_working_directory_is_asked_for_its_own_file(monkeypatch, tmp_path):
    """MLflow keeps one connection for an address, wherever that leads from a second working directory."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        client = MlflowClient(new_store(tmp_path / name))
        run_id = client.create_run("0", tags={"hpo.study_id": name, "hpo.kind": "study"}).info.run_id
        pages = pages_of_study(STORE, TrackedStudy(name, name, "score", "maximize"))
        assert run_id in next(page.address for page in pages if page.what == "its run")
        # Found, and not of a study that has a report.
        with pytest.raises(TrackError, match=r"has no config\.yaml"):
            download_study(run_id, STORE, tmp_path)


@pytest.mark.nightly
def test_sync_counts_what_mlflow_has(capsys):
    """What was not tracked is sent; of what others deleted there everything comes back; what a copy added is told."""
    searched(capsys, toy_config("evolutionary", trials=4))
    assert not Path("mlflow.db").exists()
    code, out, err = hpo(capsys, "sync", "toy")
    assert (code, f"4 trials are in {STORE}" in out) == (0, True), out + err
    shutil.copytree("runs/toy", "runs/copy")
    client = MlflowClient(f"sqlite:///{Path('mlflow.db').absolute()}")
    (experiment,) = client.search_experiments(filter_string="name = 'tests'")
    trials = client.search_runs([experiment.experiment_id], "tags.`hpo.kind` = 'trial'")
    for run in list(trials)[:2]:
        client.delete_run(run.info.run_id)
    code, out, _ = hpo(capsys, "sync", "toy")
    assert (code, out) == (0, f"4 trials are in {STORE}\n")
    assert len(client.search_runs([experiment.experiment_id], "tags.`hpo.kind` = 'trial'")) == 4
    assert hpo(capsys, "resume", "copy", "study.trials=6")[0] == 0
    assert hpo(capsys, "sync", "copy")[0] == 0
    code, out, _ = hpo(capsys, "sync", "toy")
    assert code == 1
    assert f"{STORE} has 6 trials of this study, its record 4" in out
    assert "hpo resume toy --as NEW" in out
