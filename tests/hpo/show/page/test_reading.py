"""A study that is looked at: what its page is made of, whatever has become of it, and nothing is created."""

import shutil

import pytest

from hpo.report.figures import Drawn, draw_figures
from hpo.show.page.reading import PageReader
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import RunningTask, write_running
from hpo.study.opening import open_study
from hpo.trials.trial import Proposal
from tests.studies import SPACES, prepared, run_toy, toy_config


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reading") / "toy"
    run_toy(folder, toy_config("random", SPACES["mixed"], 8))
    return folder


@pytest.fixture
def copied(ended, tmp_path):
    shutil.copytree(ended, tmp_path / "toy")
    return StudyFolder(tmp_path / "toy")


def names(folder):
    return sorted(path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*"))


def test_what_has_not_changed_is_not_read_again(copied):
    before, reader = names(copied), PageReader(copied)
    first = reader.read()
    assert first.changed == {"status", "tasks", "record"}
    assert (first.view.fault, len(first.subject.trials)) == (None, 8)
    second = reader.read()
    assert (second.changed, second.subject) == (frozenset(), first.subject)
    assert names(copied) == before


def test_the_curve_of_a_training_under_way_is_drawn_with_the_others(copied):
    config = toy_config("random", SPACES["mixed"], 12)
    study = prepared(copied.path, config)
    with copied.lock():
        record = open_study(study)
        number = record.open_trial(8, Proposal({**record.trials()[0].point, "toy.layers": 4})).number
        curve = [(1.0, -2.0), (2.0, -1.0)]
        task = RunningTask(trial=number, task=0, worker=1, started=1.0, reported=2.0, point={"epoch": 2.0}, curve=curve)
        write_running(copied, [task])
        seen = PageReader(copied).read()
        assert (seen.is_over, seen.workers, [each.trial for each in seen.view.running]) == (False, 2, [number])
        (drawing,) = draw_figures(seen.subject, ["learning-curves"])
        assert isinstance(drawing.content, Drawn)
        (drawn,) = [trace for trace in drawing.content.figure.data if trace.meta == number]
        assert list(zip(drawn.x, drawn.y, strict=True)) == curve
        assert "Running trials in green" in drawing.content.caption
        record.close()
    # Of a search that was killed here the file stays; nothing runs.
    assert PageReader(copied).read().view.running == []


def test_a_damaged_record_says_so_and_what_was_read_stays(copied):
    reader = PageReader(copied)
    first = reader.read()
    copied.database_path.write_bytes(b"no database" * 1000)
    before = names(copied)
    second = reader.read()
    assert "study.db cannot be read" in second.view.fault
    assert "hpo resume" in second.view.next[0].command
    assert "\n" not in second.view.fault
    assert (second.subject, second.view.state) == (first.subject, "ended")
    assert second.view.cautions == first.view.cautions
    assert names(copied) == before


def test_a_study_that_is_moved_away_says_so_and_is_waited_for(copied):
    reader = PageReader(copied)
    first = reader.read()
    elsewhere = copied.path.rename(copied.path.with_name("elsewhere"))
    seen = reader.read()
    assert (seen.view.state, seen.is_over) == ("unreadable", False)
    assert "does not exist" in seen.view.error
    assert not copied.path.exists()
    elsewhere.rename(copied.path)
    back = reader.read()
    assert (back.view.state, back.is_over) == ("ended", True)
    assert back.subject.winner == first.subject.winner


def test_a_study_is_read_without_its_objective_and_nothing_of_it_changes(copied):
    config = copied.config_path.read_text()
    assert "tests.toy:score" in config
    copied.config_path.write_text(config.replace("tests.toy:score", "gone:score"))
    before = {path: path.read_bytes() for path in copied.path.rglob("*") if path.is_file()}
    seen = PageReader(copied).read()
    assert (seen.view.fault, seen.view.error) == (None, None)
    assert seen.subject.winner.number == copied.report()["winner"]["number"]
    assert {path: path.read_bytes() for path in copied.path.rglob("*") if path.is_file()} == before
