"""A study's live page: every part can be made, as the report and `hpo show` have it, and nothing is created."""

import json
import re
import shutil
from html import unescape

import pytest

from hpo.report.figures import draw_figures
from hpo.show.details import details_text
from hpo.show.lines import progress_text, question_text
from hpo.show.page.content import StudyContent
from hpo.show.page.reading import PageReader
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import RunningTask, Status, write_running
from hpo.study.opening import open_study
from hpo.study.view.reader import StudyReader
from hpo.trials.trial import Proposal
from tests.hpo.study.test_status import contents
from tests.studies import SPACES, prepared, run_toy, shipped, toy_config


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reading") / "toy"
    run_toy(folder, toy_config("random", SPACES["mixed"], 8))
    return folder


@pytest.fixture
def copied(ended, tmp_path):
    shutil.copytree(ended, tmp_path / "toy")
    return StudyFolder(tmp_path / "toy")


def parts_of(folder):
    content, parts = StudyContent(folder), {}
    while not content.is_over:
        parts |= dict(content.refresh())
    assert "could not be made" not in json.dumps(parts)
    return parts


CASES = {
    "folds": toy_config(trials=8, objective="toy_data:noisy", split=shipped("default", "split") | {"folds": 3}),
    "amounts": toy_config("successive_halving", trials=8, objective="toys:continued"),
    "metrics": toy_config("random", SPACES["mixed"], 8, objective="toy_front:several"),
}
CASES["metrics"]["study"] |= {"metrics": {"score": "maximize", "size": "minimize"}, "limits": {"latency": 8.0}}


@pytest.mark.nightly("metrics", "folds")
@pytest.mark.parametrize("case", CASES)
def test_a_study_that_has_ended_has_every_part_and_its_state_is_that_of_hpo_show(tmp_path, case):
    folder = StudyFolder(tmp_path / "toy")
    run_toy(folder.path, CASES[case])
    parts, report, view = parts_of(folder), folder.report(), StudyReader(folder, folder.reference).view()
    assert ("front" in parts, "hypervolume" in parts) == (case == "metrics",) * 2
    assert f"trial {report['winner']['number']}" in parts["state"]["html"]
    assert parts["trials"]["html"].count("<tr") == 1 + sum(report["counts"][s] for s in ("complete", "failed"))
    text = " ".join(unescape(re.sub("<[^>]*>", " ", parts["state"]["html"])).split())
    # Long texts are on several lines there.
    shown = " ".join(details_text(view).split())
    for says in (question_text(view), progress_text(view), *(step.does for step in view.next)):
        assert says in text
        assert says in shown


def test_a_damaged_report_removes_no_part(copied):
    copied.status_path.write_text(Status(name="toy", state="ended").model_dump_json())
    (copied.path / "report.json").write_text("{")
    assert parts_of(copied)["best-so-far"]["figure"]


def test_what_has_not_changed_is_not_read_again_and_no_objective_is_needed(copied):
    copied.config_path.write_text(copied.config_path.read_text().replace("toys:score", "gone:score"))
    before, reader = contents(copied.path), PageReader(copied)
    first = reader.read()
    assert first.changed == {"status", "tasks", "record"}
    assert (first.view.fault, first.view.error, len(first.subject.trials)) == (None, None, 8)
    assert first.subject.winner.number == copied.report()["winner"]["number"]
    second = reader.read()
    assert (second.changed, second.subject) == (frozenset(), first.subject)
    assert contents(copied.path) == before


def test_a_study_that_is_moved_away_says_so_and_is_waited_for(copied):
    reader = PageReader(copied)
    first, elsewhere = reader.read(), copied.path.rename(copied.path.with_name("elsewhere"))
    away = reader.read()
    assert (away.view.state, away.is_over, "does not exist" in away.view.error) == ("unreadable", False, True)
    elsewhere.rename(copied.path)
    back = reader.read()
    assert (back.view.state, back.is_over, back.subject.winner) == ("ended", True, first.subject.winner)


def test_the_curve_of_a_running_training_is_drawn_with_the_others(copied):
    curve = [(1.0, -2.0), (2.0, -1.0)]
    with copied.lock():
        record = open_study(prepared(copied.path, toy_config("random", SPACES["mixed"], 12)))
        number = record.open_trial(8, Proposal({**record.trials()[0].point, "toy.layers": 4})).number
        record.close()
        given = {"trial": number, "task": 0, "worker": 1, "started": 1.0, "reported": 2.0, "point": {"epoch": 2.0}}
        write_running(copied, [RunningTask(**given, curve=curve)])
        reading = PageReader(copied).read()
        assert (reading.is_over, [each.trial for each in reading.view.running]) == (False, [number])
        (drawing,) = draw_figures(reading.subject, ["learning-curves"])
        (drawn,) = [trace for trace in drawing.content.figure.data if trace.meta == number]
        assert list(zip(drawn.x, drawn.y, strict=True)) == curve
    # The file of a killed search stays; nothing runs.
    assert PageReader(copied).read().view.running == []


def test_of_a_damaged_record_the_page_says_so_and_what_was_read_stays(copied):
    reader = PageReader(copied)
    first = reader.read()
    copied.database_path.write_bytes(b"no database" * 1000)
    before, second = contents(copied.path), reader.read()
    assert "study.db cannot be read" in second.view.fault
    assert "hpo resume" in second.view.next[0].command
    assert (second.subject, second.view.state, second.view.cautions) == (first.subject, "ended", first.view.cautions)
    parts = parts_of(copied)
    assert "study.db cannot be read" in parts["state"]["html"]
    assert all("Not known." in parts[name]["html"] for name in ("trials", "failures"))
    assert contents(copied.path) == before
