"""`hpo reproduce`: the recorded numbers again, from a folder alone; and what was changed since is told or refused."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from hpo.session.session import run_study
from hpo.study.opening import open_study
from hpo.workers.dispatch.local import LocalDispatcher
from tests.hpo.cli.commands import TABLE, TABLE_DATA, hpo, refused, searched
from tests.studies import REPOSITORY, STRATEGIES, prepared, toy_config


@pytest.fixture
def study():
    """A finished study of the toy objective with three folds and two repeats, whose scores depend on their seeds."""
    tree = toy_config("random", trials=4, objective="tests.toy_data:noisy")
    tree |= {"study": tree["study"] | {"name": "made", "repeats": 2}, "split": tree["split"] | {"folds": 3}}
    return finished(tree)


def finished(tree):
    folder = Path("runs") / tree["study"]["name"]
    study = prepared(folder, tree)
    record = open_study(study)
    run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
    record.close()
    return folder


def test_the_winner_comes_out_the_same_to_the_last_bit(capsys, study):
    code, out, err = hpo(capsys, "reproduce", "made")
    assert (code, err) == (0, "")
    assert "bitwise equal scores" in out
    assert out.count("difference +0\n") == 6
    assert "reproduced: all 6 trainings" in out


@pytest.mark.slow
def test_all_trials_some_folds_and_a_published_copy_alone(capsys, study):
    code, out, _ = hpo(capsys, "report", "made", "--publish")
    assert (code, "studies/made/trials.csv" in out) == (0, True)
    assert not (Path("studies/made") / "study.db").exists()
    shutil.rmtree("runs")
    code, out, _ = hpo(capsys, "reproduce", "studies/made", "--trial", "all", "--folds", "0,2")
    assert (code, "all 16 trainings" in out) == (0, True)
    code, out, _ = hpo(capsys, "reproduce", "studies/made/report.json", "--trial", "2", "--folds", "1")
    assert (code, out.count("trial 2  fold_1_repeat_")) == (0, 2)


@pytest.mark.slow
def test_the_winner_comes_out_of_the_report_alone(capsys, study):
    shutil.copy(study / "report.json", "mailed.json")
    winner = json.loads(Path("mailed.json").read_text())["winner"]["number"]
    shutil.rmtree("runs")
    code, out, err = hpo(capsys, "reproduce", "mailed.json")
    assert (code, err) == (0, "")
    assert "required: bitwise equal scores" in out
    assert out.count(f"trial {winner}  fold_") == 6
    assert f"the number of a complete trial ({winner})" in refused(capsys, "reproduce", "mailed.json", "--trial", "77")
    Path("mailed.json").write_text('{"format": 1}')
    assert "has no winner to train again" in refused(capsys, "reproduce", "mailed.json")


@pytest.mark.quick("trials.csv")
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["trials.csv", "config.yaml", "environment.json", "best.yaml"])
def test_a_file_that_was_changed_after_the_report_is_refused(capsys, study, name):
    path = study / name
    path.write_text(path.read_text().replace("0", "2", 1))
    assert "differs from the file that the report was written with" in refused(capsys, "reproduce", "made")


def test_a_score_that_does_not_come_out_ends_in_exit_code_1(capsys, study):
    (study / "report.json").unlink()
    path = study / "trials.csv"
    header, first, *rest = path.read_text().splitlines()
    cells = first.split(",")
    place = header.split(",").index("fold_0_repeat_0")
    cells[place] = str(float(cells[place]) - 0.5)
    path.write_text("\n".join([header, ",".join(cells), *rest]) + "\n")
    code, out, _ = hpo(capsys, "reproduce", "made", "--trial", "0")
    assert code == 1
    assert out.count("<-- not reproduced") == 1
    assert "not reproduced: 1 of 6 trainings differ" in out
    code, out, _ = hpo(capsys, "reproduce", "made", "--trial", "0", "--tolerance", "0.9")
    assert code == 0


@pytest.mark.slow
def test_another_version_is_told_first_and_widens_what_is_demanded(capsys, study):
    path = study / "environment.json"
    environment = json.loads(path.read_text())
    environment["packages"]["numpy"] = "1.0.0"
    path.write_text(json.dumps(environment))
    # As it would have been written there.
    assert hpo(capsys, "report", "made")[0] == 0
    code, out, _ = hpo(capsys, "reproduce", "made", "--folds", "0")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "what changed:"
    assert "packages: numpy was 1.0.0, is " in lines[1]
    assert "required: differences up to 2.0%" in out


@pytest.mark.nightly
def test_code_that_changed_is_told_first_and_demands_no_less(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("own_train.py").write_text("def run_fold(task):\n    return {'score': task['config']['toy']['lr']}\n")
    searched(capsys, toy_config(trials=1, objective="own_train:run_fold"))
    assert "what changed: nothing" in hpo(capsys, "reproduce", "toy")[1]
    Path("own_train.py").write_text("def run_fold(task):\n    return {'score': task['config']['toy']['lr'] * 1.01}\n")
    del sys.modules["own_train"]
    shutil.rmtree("__pycache__", ignore_errors=True)
    shutil.copy("runs/toy/report.json", "mailed.json")
    for study in ("toy", "mailed.json"):
        code, out, _ = hpo(capsys, "reproduce", study)
        assert code == 1
        lines = out.splitlines()
        assert lines[0] == "what changed:"
        assert re.fullmatch(r"  code: own_train\.py was [0-9a-f]+ and is now [0-9a-f]+", lines[1])
        assert "required: bitwise equal scores" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "name", "value", "said"),
    [
        ("revisions", "strategy random", 7, "code: revision of strategy random was 7 and is now 1"),
        ("toolkit", "files", "0123", "toolkit: its files were edited (hash 0123, now "),
        ("toolkit", "commit", "abc", None),
    ],
)
def test_other_revisions_and_files_of_the_toolkit_are_told_and_demand_no_less(capsys, study, part, name, value, said):
    report = json.loads((study / "report.json").read_text())
    report["study"]["code"][part][name] = value
    (study / "report.json").write_text(json.dumps(report))
    code, out, _ = hpo(capsys, "reproduce", "made", "--folds", "0")
    assert (code, "bitwise equal scores" in out) == (0, True)
    # A commit with the same files is no other code.
    assert ("toolkit" in out or "revision" in out, (said or "") in out) == (said is not None, True)


@pytest.mark.slow
def test_a_trial_that_was_continued_is_trained_from_the_start(capsys):
    halving = STRATEGIES["successive_halving"] | {"counts": "trials"}
    tree = toy_config(halving, trials=7, objective="tests.toy:continued")
    finished(tree)
    code, out, _ = hpo(capsys, "reproduce", "toy")
    assert (code, "trial 6  fold_0" in out) == (0, True)
    assert hpo(capsys, "reproduce", "toy", "--trial", "all")[0] == 0


@pytest.mark.slow
def test_data_that_lie_elsewhere_are_found_and_other_data_are_told(capsys):
    """Those of a table, which no split knows."""
    shutil.copy(TABLE, "table.csv")
    assert hpo(capsys, "search", *TABLE_DATA, "track=none", "study.name=looked", "study.trials=4")[0] == 0
    Path("elsewhere").mkdir()
    shutil.move("table.csv", "elsewhere/table.csv")
    code, _, err = hpo(capsys, "reproduce", "looked")
    assert (code, "table.csv" in err) == (2, True)
    code, out, _ = hpo(capsys, "reproduce", "looked", "data.path=elsewhere/table.csv")
    assert (code, "what changed: nothing" in out) == (0, True), out
    with Path("elsewhere/table.csv").open("a") as table:
        table.write("\n")
    code, out, _ = hpo(capsys, "reproduce", "looked", "data.path=elsewhere/table.csv")
    assert code == 0
    assert "data: table.csv was " in out
    for wrong in ("model.layers=2", "data.path", "data.path="):
        assert hpo(capsys, "reproduce", "looked", wrong)[0] == 2
