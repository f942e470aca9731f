"""Folders, terminals and files that are not as one expects: one line, or nothing to be noticed; never a traceback."""

import os
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

UNICODE = "äöü ☃"
TEXTS = ["a\rb", "c\nd", "e\x85f\u2028g", 'e"f', ",", UNICODE, "plain"]


def wanders(task):
    """Leave for a folder that has a study of the same name."""
    os.chdir("elsewhere")
    yield {"epoch": 1, "score": 0.5}
    return 1.0


@pytest.mark.slow
def test_an_objective_that_changes_the_working_directory_changes_no_other_study(capsys):
    Path("elsewhere").mkdir()
    shutil.copytree(make("elsewhere/runs/toy"), "before")
    searched(capsys, toy_config(trials=3, objective=f"{__name__}:wanders"))
    assert Path("runs/toy/report.html").exists()
    for path in Path("before").iterdir():
        assert path.read_bytes() == Path("elsewhere/runs/toy", path.name).read_bytes()


BESIDE = """\
import os
import beside_it, hpo

def train(config):
    return beside_it.half(config["x"])

if __name__ == "__main__":
    os.chdir("elsewhere")
    hpo.search(train, {"x": [1, 2]}, trials=2, direction="maximize", settings={"track": "none", "dispatch.workers": 1})
"""


@pytest.mark.slow
def test_a_script_that_changes_the_working_directory_trains_on_ray_with_what_is_beside_it():
    Path("elsewhere").mkdir()
    Path("beside_it.py").write_text("def half(x): return x / 2")
    Path("script.py").write_text(BESIDE)
    subprocess.run([sys.executable, "script.py"], env=environment(), check=True, capture_output=True)
    assert sorted(row["score"] for row in rows(Path("elsewhere/runs/train/trials.csv"))) == ["0.5", "1.0"]


def make(folder, **changes):
    run_toy(Path(folder), toy_config(trials=3, **changes))
    return Path(folder)


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


@pytest.mark.slow
def test_texts_of_any_kind_come_back_from_trials_csv(tmp_path):
    space = {"toy": {"nonlinearity": {"choices": ["relu", "tanh"]}, "name": {"choices": TEXTS}}}
    tree = toy_config("grid", trials=14, space=space, objective="tests.toy:constant")
    tree["toy"]["name"] = "plain"
    rows = run_toy(tmp_path / "study", tree)
    assert {row["toy.name"] for row in rows} == set(TEXTS)
    study = prepared(tmp_path / "study", tree)
    found = read_rows(study.folder.trials_path, ["toy.name"])
    assert [point_of(row, study.space) for row in found] == [dict(t.point) for t in read_study(study).trials()]


@pytest.mark.nightly
def test_a_terminal_that_does_not_know_a_sign_shows_another():
    Path("toy.yaml").write_text(
        yaml.safe_dump(
            toy_config(
                trials=2,
                space={"toy": {"name": {"choices": [UNICODE, "ß"]}}},
                objective="tests.toy:constant",
                toy={"name": "ß"},
            ),
            allow_unicode=True,
        )
    )
    code, out, err = hpo("search", "--config", "toy.yaml", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert code == 0, err
    assert r"\u2603" in out


def test_a_working_directory_that_was_deleted_is_told():
    Path("gone").mkdir()
    code = "import os, sys; os.chdir('gone'); os.rmdir('../gone'); from hpo.cli.main import main; "
    code += "sys.exit(main(['search']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "the working directory was deleted" in done.stderr


def removes_everything(task):
    shutil.rmtree(Path.cwd())
    return 1.0


@pytest.mark.slow
def test_a_working_directory_that_a_training_deletes_is_told():
    Path("gone").mkdir()
    code, _, err = hpo("search", *LOCAL, f"objective={__name__}:removes_everything", cwd="gone")
    assert code == 1
    assert "the working directory was deleted" in err
    assert "Traceback" not in err


def test_a_number_that_is_none_is_no_point_of_a_table():
    space = space_from_dict({"x": {"low": 1, "high": 9, "integer": True}}, {"x": 1})
    assert [point_of({"x": text}, space) for text in ("inf", "nan", "-inf", "3.0")] == [None, None, None, {"x": 3}]


@pytest.mark.nightly
def test_a_working_directory_of_any_name(capsys, monkeypatch):
    """Hydra, Optuna and SQLAlchemy each have signs with a meaning of their own."""
    name = r"it's a{b} x${y} p%41 back\slash"
    Path(name, "my/study").mkdir(parents=True)
    monkeypatch.chdir(name)
    Path("my/study/own.yaml").write_text("# @package _global_\ndefaults:\n  - default@study\nstudy: {name: own}\n")
    assert in_this_process(capsys, "search", "--config-dir", "my", "study=own", "--cfg", "job")[0] == 0
    searched(capsys, toy_config(trials=2))
    assert in_this_process(capsys, "resume", "toy", "study.trials=3")[0] == 0
    assert in_this_process(capsys, "reproduce", "toy")[0] == 0


@pytest.mark.nightly
def test_a_record_that_may_only_be_read_is_read(capsys):
    assert in_this_process(capsys, "search", "objective=tests.toy:score", *LOCAL, "study.trials=3")[0] == 0
    for path in Path("runs/toy").glob("study.db*"):
        path.chmod(0o400)
    before = Path("runs/toy/trials.csv").read_bytes()
    code, _, err = hpo("report", "toy", preexec_fn=bound_by_permissions)
    assert code == 0, err
    assert Path("runs/toy/trials.csv").read_bytes() == before
    assert sorted(path.name for path in Path("runs/toy").glob("study.db-*")) == []
    Path("runs/toy").chmod(0o500)
    try:
        code, _, err = hpo("export", "toy", "--optuna", "sqlite:///copy.db", preexec_fn=bound_by_permissions)
        assert code == 0, err
        code, _, err = hpo("report", "toy", preexec_fn=bound_by_permissions)
    finally:
        Path("runs/toy").chmod(0o700)
    assert (code, err.count("\n")) == (1, 1)
    assert "runs/toy/trials.csv: Permission denied" in err
