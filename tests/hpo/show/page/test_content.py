"""What a page shows: every part of every kind of study can be made, and as the report has it."""

import json
import re
from html import unescape

import pytest

from hpo.show.details import details_text
from hpo.show.lines import best_text, progress_text, question_text
from hpo.show.page.content import StudyContent
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import Status
from hpo.study.view.reader import StudyReader
from tests.studies import SPACES, run_toy, toy_config


def parts_of(folder):
    """Return all parts of a study's page, until nothing more comes."""
    content, parts = StudyContent(StudyFolder(folder)), {}
    while not content.is_over:
        parts |= dict(content.refresh())
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


def test_a_damaged_report_takes_no_part(tmp_path):
    run_toy(tmp_path / "clock", toy_config(trials=3))
    StudyFolder(tmp_path / "clock").status_path.write_text(Status(name="clock", state="ended").model_dump_json())
    (tmp_path / "clock" / "report.json").write_text("{")
    parts = parts_of(tmp_path / "clock")
    assert "could not be made" not in json.dumps(parts)
    assert parts["best-so-far"]["figure"]


def test_of_a_damaged_record_nothing_is_said_but_that_it_cannot_be_read(tmp_path):
    run_toy(tmp_path / "toy", toy_config(trials=3))
    (tmp_path / "toy" / "study.db").write_bytes(b"no database" * 1000)
    parts = parts_of(tmp_path / "toy")
    assert "study.db cannot be read" in parts["state"]["html"]
    for name in ("trials", "failures"):
        assert "Not known." in parts[name]["html"]


def test_a_search_without_a_complete_trial_says_so_and_which_command_goes_on(tmp_path):
    folder = StudyFolder(tmp_path / "other" / "toy")
    run_toy(folder.path, toy_config("random", trials=2, objective=f"{__name__}:failing"))
    assert "<b>No winner</b>: every trial failed, the first with: " in parts_of(folder.path)["state"]["html"]
    folder.status_path.write_text(Status(name="toy", state="interrupted").model_dump_json())
    assert f"<code>hpo resume {folder.reference}</code>" in parts_of(folder.path)["state"]["html"]


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


def test_the_state_says_what_hpo_show_says(tmp_path):
    run_toy(tmp_path / "toy", toy_config("random", SPACES["continuous"], 24))
    folder = StudyFolder(tmp_path / "toy")
    html, view = parts_of(folder.path)["state"]["html"], StudyReader(folder, folder.reference).view()
    text = " ".join(unescape(re.sub("<[^>]*>", " ", html)).split())
    # What is long is on several lines there.
    shown = " ".join(details_text(view).split())
    for says in (question_text(view), progress_text(view), best_text(view), *(step.does for step in view.next)):
        assert says in text
        assert says in shown
