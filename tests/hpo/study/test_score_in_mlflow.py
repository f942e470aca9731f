"""What the test part has said is in MLflow, too, without another command."""

import json
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient

import hpo as toolkit
from hpo.track.store import find_run
from tests.hpo.cli.commands import hpo
from tests.hpo.study.test_front_on_test import toy
from tests.tracked import new_store

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


def tracked(capsys, **track):
    """Return the folder of a study of several metrics whose config names MLflow, and which was never sent."""
    folder = toy(capsys)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["track"] |= {"name": "mlflow", "uri": "sqlite:///mlflow.db"} | track
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


def test_its_run_has_the_score(capsys):
    new_store(Path.cwd())
    folder = tracked(capsys)
    assert toolkit.load("toy").test(with_default=False) == {"score": 2.5}
    study_id = json.loads((folder / "report.json").read_text())["study"]["id"]
    # By its whole path: MLflow keeps open what it has opened by the same words.
    run = find_run(MlflowClient(f"sqlite:///{Path('mlflow.db').resolve()}"), study_id)
    assert (run.data.metrics["test_score"], run.info.status) == (2.5, "FINISHED")
    assert "Test score: **2.50" in run.data.tags["mlflow.note.content"]


def test_a_store_that_is_not_there_is_not_made(capsys):
    tracked(capsys)
    assert hpo(capsys, "test", "toy", "--no-default")[0] == 0
    assert not Path("mlflow.db").exists()


@pytest.mark.parametrize(("uri", "says"), [
    ("sqlite:///mlflow.db", "is not an MLflow database"),
    ("http://127.0.0.1:9", "MLflow does not have the test score: send it later with `hpo sync toy`"),
])  # fmt: skip
def test_where_it_does_not_arrive_the_score_is_shown_and_a_warning_says_what_to_do(capsys, uri, says):
    Path("mlflow.db").write_text("no database, and longer than the header of one would be: " + 60 * "x")
    tracked(capsys, uri=uri, patience=0.1)
    code, out, err = hpo(capsys, "test", "toy", "--no-default")
    assert (code, "  score = 2.5" in out) == (0, True)
    assert says in err
    assert "`hpo sync toy`" in err
