"""What is state is for this user alone, and nothing in a study's folder leads out of it."""

import json
import os
import stat
from pathlib import Path

import pytest

from hpo.study.opening import read_study
from hpo.study.preparing.preparation import load_study
from tests.faults.driver import LOCAL
from tests.hpo.cli.commands import QUICK, hpo, refused

MADE = (*QUICK, "study.name=made", "study.trials=1", "split.folds=1")


def modes(folder):
    return [str(path) for path in folder.rglob("*") if stat.S_IMODE(path.lstat().st_mode) & 0o077]


@pytest.mark.slow
def test_state_is_for_this_user_alone(capsys):
    before = os.umask(0o022)
    try:
        for command in (["search", *MADE, "track=mlflow"], ["train", "--config", "runs/made/best.yaml"]):
            code, _, err = hpo(capsys, *command)
            assert code == 0, err
        assert os.umask(0o022) == 0o022, "the command leaves the process as it was"
        assert {"runs", "mlflow.db", "mlartifacts"} <= {path.name for path in Path().iterdir()}
        assert modes(Path()) == []
    finally:
        os.umask(before)


def test_state_is_for_this_user_alone_whatever_umask_an_objective_sets(capsys):
    code = "import os\nos.umask(0)\n\ndef check(config):\n    os.umask(0)\n\ndef run(task):\n    os.umask(0)\n"
    Path("opens.py").write_text(code + "    yield {'epoch': 1}\n    return 1.0\n")
    code, _, err = hpo(capsys, "search", "objective=opens:run", *LOCAL, "study.trials=2", "report.figures=false")
    assert code == 0, err
    assert len(list(Path("runs").rglob("*"))) > 5
    assert modes(Path("runs")) == []
    (made,) = Path("runs").iterdir()
    made.chmod(0o755)  # The user shares the study.
    assert (hpo(capsys, "archive", made.name, "x.tgz")[0], stat.S_IMODE(made.stat().st_mode)) == (0, 0o755)


@pytest.mark.parametrize("command", [
    *(["search", f'study.name="{name}"'] for name in ("../out", "/tmp/x", "..", ".hidden", "a b", "-rf", "", "ö")),
    ["search", "study.name=" + "a" * 101],
    ["compare", "--strategies", "random,grid", "--name=../out", "dispatch=local"],
    ["import", "--csv", "t.csv", "--", "../out"],
], ids=" ".join)  # fmt: skip
def test_one_rule_for_all_names(capsys, command):
    Path("t.csv").write_text("score,lr\n1,2\n")
    assert "(a-z, A-Z, digits, '.', '_', '-')" in refused(capsys, *command)
    assert [str(path) for path in Path().iterdir()] == ["t.csv"]


def test_a_study_that_is_a_link_is_refused(capsys, study):
    elsewhere = study.parent.parent / "elsewhere"
    study.rename(elsewhere)
    study.symlink_to(elsewhere.absolute())
    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}
    for command in (["resume", "made"], ["test", "made"], ["search", *MADE]):
        assert "is a link" in refused(capsys, *command)
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before


@pytest.mark.parametrize("place", ["study.db", "checkpoints", "states/x"])
def test_a_link_out_of_the_folder_is_refused(capsys, study, tmp_path_factory, place):
    outside, target = tmp_path_factory.mktemp("outside"), study / place
    if target.exists():
        target.rename(outside / target.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(outside / target.name)
    for command in ("resume", "report", "test", "reproduce"):
        assert "leads out of the study's folder" in refused(capsys, command, "made")
    refused(capsys, "predict", "made", "--input", "-")


def test_a_model_outside_of_the_folder_is_not_loaded(capsys, study):
    record = read_study(load_study("made"))
    record.note("final", record.read_note("final") | {"checkpoint_dir": "../../elsewhere"})
    record.close()
    Path("rows.txt").write_text("1\n")
    for command in (["predict", "made", "--input", "rows.txt"], ["test", "made"], ["attention", "made", "--text", "1"]):
        assert "is outside of the folder" in refused(capsys, *command)


def test_a_report_names_no_file_outside_of_the_folder(capsys, study):
    report = json.loads((study / "report.json").read_text())
    report["files"] = {"../../../etc/passwd": "0" * 64}
    (study / "report.json").write_text(json.dumps(report))
    assert "is outside of the folder" in refused(capsys, "reproduce", "made")


def test_nothing_is_published_through_a_link(capsys, study, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    Path("studies").mkdir()
    Path("studies/made").symlink_to(outside)
    assert "is a link" in refused(capsys, "report", "made", "--publish")
    assert list(outside.iterdir()) == []
