"""A study whose folder is moved or copied by hand: the same there, with its runs in MLflow and what it opened."""

import json
import shutil
from pathlib import Path

import pytest

from hpo.study.files.folder import StudyFolder
from hpo.study.test_log import all_evaluations, write_evaluation
from tests.hpo.cli.commands import hpo, searched
from tests.studies import run_toy, toy_config
from tests.tracked import new_store, runs_of, tracked_study

ELSEWHERE = Path("elsewhere")


@pytest.fixture(params=[shutil.move, shutil.copytree])
def moved(request, toy):
    write_evaluation(toy, {"time": "once", "study": "toy", "study_id": "1", "trial": 0, "fingerprint": "f"})
    ELSEWHERE.mkdir()
    request.param(toy.path, ELSEWHERE / "toy")
    return StudyFolder(ELSEWHERE / "toy")


@pytest.mark.usefixtures("moved")
def test_its_openings_count_once_for_the_studies_here_and_there():
    for place in (Path("runs/other"), ELSEWHERE / "other", ELSEWHERE / "toy"):
        assert len(all_evaluations(StudyFolder(place), "f")) == 1


@pytest.mark.slow
def test_it_goes_on_there_with_the_same_trials(moved, tmp_path):
    assert run_toy(moved.path, toy_config(trials=5)) == run_toy(tmp_path / "whole", toy_config(trials=5))
    assert json.loads((moved.path / "report.json").read_text())["counts"]["complete"] > 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_it_keeps_its_runs_in_mlflow_and_says_whose_it_is_under_another_name(capsys, tmp_path):
    new_store(tmp_path)
    tree = toy_config(trials=1, track={"name": "mlflow", "uri": "sqlite:///mlflow.db", "experiment": "tests"})
    searched(capsys, tree)
    shutil.move("runs/toy", "other")
    assert hpo(capsys, "show", "other")[0] == 0
    code, out, err = hpo(capsys, "resume", "other", "study.trials=2")
    assert (code, "other is a copy of study 'toy'" in out) == (0, True), err
    assert sorted(runs_of(tracked_study(tmp_path))[1]) == [0, 1]
