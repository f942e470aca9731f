"""Unusual folders, files and clocks: one line, or no difference at all; never a traceback."""

import datetime
from pathlib import Path

import optuna
import pytest
import yaml

from hpo.errors import MachineError
from hpo.study.opening import read_study
from hpo.trials.record import optuna_tables
from hpo.trials.record.storage import sqlite_url
from hpo.trials.space.reader import space_from_dict
from hpo.trials.table import point_of, read_rows
from hpo.workers.objective.process_state import Isolation
from tests.faults.driver import undisturbed_rows
from tests.hpo.cli.commands import hpo as in_this_process
from tests.hpo.cli.commands import refused, searched
from tests.studies import prepared, refuses, run_toy, toy_config

TEXTS = ["a\rb", "c\nd", "e\x85f\u2028g", 'e"f', ",", "äöü ☃", "plain"]


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


def test_texts_of_any_kind_come_back_from_trials_csv(tmp_path):
    space = {"toy": {"nonlinearity": {"choices": ["relu", "tanh"]}, "name": {"choices": TEXTS}}}
    tree = toy_config("grid", trials=14, space=space, objective="toys:constant")
    tree["toy"]["name"] = "plain"
    assert {row["toy.name"] for row in run_toy(tmp_path / "study", tree)} == set(TEXTS)
    study = prepared(tmp_path / "study", tree)
    found = read_rows(study.folder.trials_path, ["toy.name"])
    assert [point_of(row, study.space) for row in found] == [dict(t.point) for t in read_study(study).trials()]
    numbers = space_from_dict({"x": {"low": 1, "high": 9, "integer": True}}, {"x": 1})
    assert [point_of({"x": text}, numbers) for text in ("inf", "nan", "-inf", "3.0")] == [None, None, None, {"x": 3}]


def test_a_deleted_working_directory_is_named(capsys, monkeypatch):
    Path("gone").mkdir()
    monkeypatch.chdir("gone")
    Path("../gone").rmdir()
    assert "working directory: it was deleted" in refused(capsys, "search")
    refuses(MachineError, "the working directory was deleted; create it again", Isolation, {})


@pytest.mark.slow
def test_a_working_directory_of_any_name(capsys, monkeypatch):
    name = r"it's a{b} x${y} p%41 back\slash"
    Path(name, "my/study").mkdir(parents=True)
    monkeypatch.chdir(name)
    Path("my/study/own.yaml").write_text("# @package _global_\ndefaults:\n  - default@study\nstudy: {name: own}\n")
    assert in_this_process(capsys, "search", "--config-dir", "my", "study=own", "--cfg", "job")[0] == 0
    searched(capsys, toy_config(trials=2))
    assert in_this_process(capsys, "resume", "toy", "study.trials=3")[0] == 0
    assert in_this_process(capsys, "reproduce", "toy")[0] == 0


def test_a_clock_that_is_set_back_makes_no_duration_negative(undisturbed, tmp_path, monkeypatch):
    times = iter(datetime.datetime(2026, 1, 2) - datetime.timedelta(hours=n) for n in range(1000))
    seconds = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(optuna_tables, "current_time", lambda: next(times))
    monkeypatch.setattr("hpo.workers.training.worker.time.time", lambda: float(next(seconds)))
    assert undisturbed_rows(tmp_path / "jumping") == undisturbed
    study = optuna.load_study(study_name="toy", storage=sqlite_url(tmp_path / "jumping" / "study.db"))
    assert all(trial.duration >= datetime.timedelta(0) for trial in study.trials)
    assert all(trial.user_attrs["fold_0"]["seconds"] >= 0 for trial in study.trials)
