"""What a page shows: every part of every kind of study can be made, and as the report has it."""

import json

import pytest

from hpo.show.page.content import StudyContent
from hpo.show.page.texts import best_text
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import Status
from tests.studies import SPACES, run_toy, toy_config


def parts_of(folder):
    """Return all parts of a study's page, until nothing more comes."""
    content, parts = StudyContent(StudyFolder(folder)), {}
    while not content.is_over:
        parts |= dict(content.look())
    return parts


@pytest.mark.parametrize(
    ("strategy", "objective", "folds"),
    [
        ("random", "tests.toy_data:noisy", 1),
        ("random", "tests.toy_data:noisy", 3),
        ("successive_halving", "tests.toy:continued", 1),
    ],
)
def test_a_study_that_has_ended_has_every_part(tmp_path, strategy, objective, folds):
    tree = toy_config(strategy, trials=8, objective=objective)
    run_toy(tmp_path / "toy", tree | {"split": tree["split"] | {"folds": folds}})
    parts = parts_of(tmp_path / "toy")
    assert "could not be made" not in json.dumps(parts)
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    assert f"trial {report['winner']['number']}" in parts["state"]["html"]
    assert parts["trials"]["html"].count("<tr") == 1 + sum(report["counts"][s] for s in ("complete", "failed"))


def test_a_damaged_report_takes_nothing_but_its_own_part(tmp_path):
    run_toy(tmp_path / "clock", toy_config(trials=3))
    StudyFolder(tmp_path / "clock").status_path.write_text(Status(name="clock", state="ended").model_dump_json())
    (tmp_path / "clock" / "report.json").write_text("{")
    parts = parts_of(tmp_path / "clock")
    assert "report.json" in parts["cautions"]["html"]
    assert json.dumps(parts).count("could not be made") == 1
    assert parts["best-so-far"]["figure"]


def test_a_search_without_a_complete_trial_says_so_and_which_command_goes_on(tmp_path):
    folder = StudyFolder(tmp_path / "other" / "toy")
    run_toy(folder.path, toy_config("random", trials=2, objective=f"{__name__}:failing"))
    assert "No trial is complete." in parts_of(folder.path)["state"]["html"]
    folder.status_path.write_text(Status(name="toy", state="interrupted").model_dump_json())
    assert f"hpo resume {folder.reference}<" in parts_of(folder.path)["state"]["html"]


def failing(task):
    raise ValueError("on purpose")


@pytest.mark.slow
def test_one_of_several_metrics_with_limits_and_folds_has_its_front(tmp_path):
    config = toy_config("random", SPACES["mixed"], 24, objective="tests.hpo.report.toy_front:several")
    config["study"] |= {"metrics": {"score": "maximize", "size": "minimize"}, "limits": {"latency": 8.0}}
    run_toy(tmp_path / "toy", config)
    parts = parts_of(tmp_path / "toy")
    assert "could not be made" not in json.dumps(parts)
    assert parts["front"]["figure"]
    assert parts["hypervolume"]["figure"]
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    assert f"trial {report['winner']['number']}" in parts["state"]["html"]


@pytest.mark.parametrize(("state", "says"), [("ended", "no winner"), ("running", "none within the limits")])
def test_where_trials_are_complete_and_none_is_the_best_the_page_says_so(state, says):
    assert best_text(Status(name="x", state=state, trials={"complete": 3}, on_front=0)) == says
    assert best_text(Status(name="x", state=state)) == ""
