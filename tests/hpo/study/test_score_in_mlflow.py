"""What the test part has said is in MLflow, too, without another command."""

import json
import re
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient

import hpo as toolkit
from hpo.track.store import find_run
from tests.hpo.cli.commands import hpo, printed
from tests.hpo.study.test_front_on_test import toy
from tests.tracked import new_store

NOTED = re.compile(r"Test score: \*\*2\.50*\*\*")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def tracked(capsys):
    """Return the folder of a study of several metrics whose config names MLflow, and which was never sent."""
    folder = toy(capsys)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["track"] |= {"name": "mlflow", "uri": "sqlite:///mlflow.db"}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


@pytest.fixture
def sent(monkeypatch):
    """Return what is sent, and whether it arrives, in the place of MLflow."""

    class Sent:
        calls, arrives = {}, True

        def __init__(self, *_):
            pass

        def send(self, call):
            Sent.calls |= [call]

        def close(self, _patience):
            return Sent.arrives

    monkeypatch.setattr("hpo.track.make.MlflowProcess", Sent)
    return Sent


@pytest.mark.parametrize("way", [[], ["--front"]])
def test_the_score_is_sent_once_it_is_counted(capsys, sent, way):
    Path("mlflow.db").touch()
    folder = tracked(capsys)
    code, _, err = hpo(capsys, "test", "toy", "--no-default", *way)
    assert (code, "hpo sync" in err) == (0, False), err
    results, closing = sent.calls["show_results"], sent.calls["close_study"]
    assert results["metrics"]["test_score"] == 2.5
    assert NOTED.search(closing["note"])
    assert (closing["status"], closing["tags"]["hpo.state"]) == ("FINISHED", "ended")
    assert str(folder / "report.json") in [str(Path(path).relative_to(Path.cwd())) for path in results["artifacts"]]


def test_where_it_does_not_arrive_the_score_is_shown_and_a_warning_says_what_to_do(capsys, sent):
    Path("mlflow.db").touch()
    tracked(capsys)
    sent.arrives = False
    code, out, err = hpo(capsys, "test", "toy", "--no-default")
    assert (code, "  score = 2.5" in out) == (0, True)
    assert err.count("\n") == 1
    assert "MLflow does not have the test score: send it later with `hpo sync toy`" in err


@pytest.mark.slow
def test_a_store_that_is_no_database_is_a_warning_and_one_that_is_not_there_is_not_made(capsys, sent):
    Path("mlflow.db").write_text("no database, and longer than the header of one would be: " + 60 * "x")
    tracked(capsys)
    _, err = printed(capsys, "test", "toy", "--no-default")
    assert "is not an MLflow database" in err
    assert "`hpo sync toy`" in err
    Path("mlflow.db").unlink()
    assert toolkit.load("toy").test(again=True, with_default=False) == {"score": 2.5}
    assert not sent.calls
    assert not Path("mlflow.db").exists()


@pytest.mark.slow
def test_its_run_has_the_score(capsys):
    new_store(Path.cwd())
    folder = tracked(capsys)
    assert toolkit.load("toy").test(with_default=False) == {"score": 2.5}
    study_id = json.loads((folder / "report.json").read_text())["study"]["id"]
    # By its whole path: MLflow keeps open what it has opened by the same words.
    run = find_run(MlflowClient(f"sqlite:///{Path('mlflow.db').resolve()}"), study_id)
    assert run.data.metrics["test_score"] == 2.5
    assert NOTED.search(run.data.tags["mlflow.note.content"])
