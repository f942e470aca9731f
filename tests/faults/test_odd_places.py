"""Unusual folders, terminals and files: one line, or no difference at all; never a traceback."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hpo.study.opening import read_study
from hpo.trials.space.reader import space_from_dict
from hpo.trials.table import point_of, read_rows
from tests.faults.driver import LOCAL, hpo
from tests.faults.test_full_disk import bound_by_permissions
from tests.hpo.cli.commands import hpo as in_this_process
from tests.hpo.cli.commands import refused, searched
from tests.studies import environment, prepared, rows, run_toy, toy_config

TEXTS = ["a\rb", "c\nd", "e\x85f\u2028g", 'e"f', ",", "äöü ☃", "plain"]
SCRIPT = """\
import os
import half, hpo

def train(config):
    return half.of(config["x"])

if __name__ == "__main__":
    os.chdir("elsewhere")
    hpo.search(train, {"x": [1, 2]}, trials=2, direction="maximize", settings={"track": "none", "dispatch.workers": 1})
"""


@pytest.mark.slow
def test_a_script_that_changes_the_working_directory_trains_on_ray_with_the_modules_next_to_it():
    Path("elsewhere").mkdir()
    Path("half.py").write_text("def of(x): return x / 2")
    Path("script.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "script.py"], env=environment(), check=True, capture_output=True)
    assert sorted(row["score"] for row in rows(Path("elsewhere/runs/train/trials.csv"))) == ["0.5", "1.0"]


@pytest.mark.parametrize("name", ["states/inner", "study.db"])
def test_a_link_that_leads_out_of_a_new_study_is_refused_and_its_target_left_alone(capsys, name):
    Path("precious/inner").mkdir(parents=True)
    Path("precious/inner/file").touch()
    place = Path("runs/toy", name)
    place.parent.mkdir(parents=True)
    place.symlink_to(Path("precious").absolute())
    Path("toy.yaml").write_text(yaml.safe_dump(toy_config(trials=2)))
    assert f"runs/toy/{name}: is a link that leads out" in refused(capsys, "search", "--config", "toy.yaml")
    assert Path("precious/inner/file").exists()


def test_texts_of_any_kind_come_back_from_trials_csv_and_numbers_that_are_none_do_not(tmp_path):
    space = {"toy": {"nonlinearity": {"choices": ["relu", "tanh"]}, "name": {"choices": TEXTS}}}
    tree = toy_config("grid", trials=14, space=space, objective="toys:constant")
    tree["toy"]["name"] = "plain"
    assert {row["toy.name"] for row in run_toy(tmp_path / "study", tree)} == set(TEXTS)
    study = prepared(tmp_path / "study", tree)
    found = read_rows(study.folder.trials_path, ["toy.name"])
    assert [point_of(row, study.space) for row in found] == [dict(t.point) for t in read_study(study).trials()]
    space = space_from_dict({"x": {"low": 1, "high": 9, "integer": True}}, {"x": 1})
    assert [point_of({"x": text}, space) for text in ("inf", "nan", "-inf", "3.0")] == [None, None, None, {"x": 3}]


def test_a_deleted_working_directory_is_named():
    Path("gone").mkdir()
    code = "import os, sys; os.chdir('gone'); os.rmdir('../gone'); from hpo.cli.main import main; "
    code += "sys.exit(main(['search']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "working directory: it was deleted" in done.stderr


def removes_everything(task):
    shutil.rmtree(Path.cwd())
    return 1.0


@pytest.mark.slow
def test_a_working_directory_that_a_training_deletes_is_named():
    Path("gone").mkdir()
    code, _, err = hpo("search", *LOCAL, f"objective={__name__}:removes_everything", cwd="gone")
    assert code == 1
    assert "the working directory was deleted" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_working_directory_of_any_name(capsys, monkeypatch):
    """Hydra, Optuna and SQLAlchemy have special characters of their own."""
    name = r"it's a{b} x${y} p%41 back\slash"
    Path(name, "my/study").mkdir(parents=True)
    monkeypatch.chdir(name)
    Path("my/study/own.yaml").write_text("# @package _global_\ndefaults:\n  - default@study\nstudy: {name: own}\n")
    assert in_this_process(capsys, "search", "--config-dir", "my", "study=own", "--cfg", "job")[0] == 0
    searched(capsys, toy_config(trials=2))
    assert in_this_process(capsys, "resume", "toy", "study.trials=3")[0] == 0
    assert in_this_process(capsys, "reproduce", "toy")[0] == 0


@pytest.mark.nightly
def test_a_read_only_record_is_read(capsys):
    assert in_this_process(capsys, "search", "objective=toys:score", *LOCAL, "study.trials=3")[0] == 0
    folder = Path("runs/toy")
    for path in folder.glob("study.db*"):
        path.chmod(0o400)
    before = (folder / "trials.csv").read_bytes()
    code, _, err = hpo("report", "toy", preexec_fn=bound_by_permissions)
    assert code == 0, err
    assert ((folder / "trials.csv").read_bytes(), [*folder.glob("study.db-*")]) == (before, [])
    folder.chmod(0o500)
    try:
        code, _, err = hpo("export", "toy", "--optuna", "sqlite:///copy.db", preexec_fn=bound_by_permissions)
        assert code == 0, err
        code, _, err = hpo("report", "toy", preexec_fn=bound_by_permissions)
    finally:
        folder.chmod(0o700)
    assert (code, err.count("\n"), "runs/toy/trials.csv: Permission denied" in err) == (1, 1, True)
