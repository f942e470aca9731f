"""What belongs to a trial: numbers and texts that it returns or notes, files of its own, and its learning curves."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest

import hpo
from tests.hpo.cli.commands import printed
from tests.hpo.commands.searched import found, outcome_of

SPACE = {"lr": [0.1, 0.2, 0.3]}


def train(config, trial):
    with pytest.raises(TypeError, match="note\\(\\) takes a finite number or a text, given x="):
        trial.note("x", [1])
    trial.note("checkpoint", f"s3://bucket/{trial.number}")
    trial.note("lr", 7)
    trial.note("lr", 8.5)
    (trial.dir / "plots").mkdir()
    (trial.dir / "plots" / "predictions.csv").write_text("1,2\n")
    for epoch in (1, 2):
        trial.report(epoch=epoch, score=config["lr"] * epoch, trial=3)
    return {"score": config["lr"], "f1": 0.5, "kind": "small", "names": ["x"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        found(train, space=SPACE, trials=2, metric="score", name="notes")
    return folder


@pytest.fixture
def study(made):
    """Return a copy of a study of two trials that has everything."""
    shutil.copytree(made / "runs", "runs")
    return hpo.load("notes")


def test_it_is_a_column_and_is_in_the_report_and_of_a_shown_trial(study, capsys):
    trials = study.trials
    assert list(trials.checkpoint) == ["s3://bucket/0", "s3://bucket/1"]
    assert list(trials["note.lr"]) == [8.5, 8.5], "a note called as a hyperparameter has a column of its own"
    assert (list(trials.f1), list(trials.kind)) == ([0.5, 0.5], ["small", "small"])
    winner = json.loads((study.folder / "report.json").read_text())["winner"]
    assert winner["returned"] == {"f1": 0.5}
    assert winner["notes"] == {"checkpoint": f"s3://bucket/{winner['number']}", "lr": 8.5, "kind": "small"}
    task = printed(capsys, "show", "notes", "--trial", "1")[0]["tasks"][0]
    assert task["notes"] == {"checkpoint": "s3://bucket/1", "lr": 8.5, "kind": "small"}
    assert [Path(file).name for file in task["files"]] == ["predictions.csv"]


def test_curves_are_a_table(study):
    curves = study.curves
    assert list(curves.columns) == ["trial", "fold", "epoch", "score", "metric.trial"]
    assert curves[["trial", "epoch"]].to_numpy().tolist() == [[0, 1], [0, 2], [1, 1], [1, 2]]
    assert (study.folder / "curves.csv").read_text().startswith("trial,fold,epoch,score,metric.trial\n0,0,1,")


def test_its_files_are_removed_by_clean(study):
    assert "files" not in study.clean().freed
    assert study.clean(files=True).freed["files"] > 0
    assert not any((study.folder / "files").iterdir())


def test_too_many_bytes_are_left_out_with_a_warning(caplog, capsys):
    def large(config, trial):
        (trial.dir / "x.bin").write_bytes(b"0" * 2000)
        trial.note("long", "x" * 1200)
        return config["lr"]

    study = found(large, space=SPACE, trials=1, settings={"study.trial_files_bytes": 1000}, progress="auto")
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert "the files in trial.dir must take at most 1,000 bytes, given 2,000;" in text
    assert "cut to 1,000 characters" in text
    assert not list((study.folder / "files").rglob("*.bin"))
    assert len(outcome_of(study).notes["long"]) == 1000


def test_trainings_after_the_search_have_files_of_their_own(tmp_path):
    def writes(config, trial):
        (trial.dir / "seed").write_text(str(trial.seed))
        return config["lr"]

    study = found(writes, space=SPACE, trials=2, data=30, settings={"study.finalists": 1})
    study.test(with_default=False)
    files = [*(study.folder / "files").rglob("seed")]
    assert len(files) > 2, "the winner is trained again on fresh seeds"
    assert len({path.read_text() for path in files}) == len(files), "no training has overwritten another one's"


def test_texts_of_set_user_attr_are_notes():
    def objective(trial):
        lr = trial.suggest_categorical("lr", [0.1, 0.2])
        trial.set_user_attr("checkpoint", "here")
        trial.set_user_attr("size", 3)
        return lr

    study = found(objective, space=None, trials=1)
    assert (study.trials.checkpoint[0], study.trials["size"][0]) == ("here", 3)
    assert Path(study.folder, "trials.csv").exists()
