"""The list of studies: all of them, filtered and sorted by their results; no record is opened."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.commands.show import FIELDS, studies
from hpo.config.documents import json_line
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import read_status
from tests.hpo.cli.commands import hpo, printed, refused
from tests.hpo.commands.searched import refuses
from tests.hpo.study.test_status import KEPT
from tests.studies import REPOSITORY

PUBLISHED = REPOSITORY / "studies"


@pytest.fixture
def runs(tmp_path):
    """Return a folder with studies of every state but running, and with folders that are no studies."""
    runs = tmp_path / "runs"
    same = {"format": 1, "state": "ended", "metrics": {"loss": "minimize"}, "budget": 4, "best": 0, "done": 4}
    for place, name in enumerate(("clock", "folds", "halving")):
        shutil.copytree(KEPT, runs / name)
        values = same | {"name": name, "strategy": name, "begun": 1e9 + place, "trials": {"complete": 4}}
        failed = {"state": "failed", "error": "no memory\x1b[31m", "scores": {}}
        values |= failed if name == "folds" else {"scores": {"loss": 0.5 - place / 10}}
        (runs / name / "status.json").write_text(json.dumps(values))
        # Nothing reads them.
        (runs / name / "study.db").write_bytes(b"no database")
        (runs / name / "config.yaml").write_text("no: study")
    (runs / "compare-a").mkdir()
    (runs / "a file").touch()
    shutil.copytree(KEPT, runs / "foreign")
    (runs / "foreign/status.json").write_text("hello")
    (runs / "link").symlink_to(runs / "clock")
    os.utime(runs / "foreign", (1e8, 1e8))
    return runs


def names(*arguments, **options):
    return [view.study for view in studies(*arguments, **options).studies]


def test_every_study_is_listed_the_newest_first_whatever_its_state(runs):
    found = {view.study: view for view in studies(runs).studies}
    states = {"link": "unreadable", "halving": "ended", "folds": "failed", "clock": "ended", "foreign": "unreadable"}
    assert [(name, view.state) for name, view in found.items()] == [*states.items()]
    assert "status.json" in found["foreign"].error
    assert "is a link" in found["link"].error
    assert found["halving"].size == sum(path.stat().st_size for path in (runs / "halving").rglob("*") if path.is_file())


@pytest.mark.parametrize(("where", "expected"), [
    ("strategy!=halving and state!=unreadable", ["folds", "clock"]),
    ("score<0.4", ["halving"]),
    ("score=none and not state=unreadable", ["folds"]),
    ("date>=2001 and date<2002", ["halving", "folds", "clock"]),
    ("error~memory", ["folds"]),
    ("not score<0.4", ["link", "folds", "clock", "foreign"]),
    ("(name~c or name='halving') and score!=none", ["halving", "clock"]),
    ("date<2001-09-08 or date>'2100-01-01 10:00'", ["foreign"]),
    ("name=clock or name=folds and score<0", ["clock"]),
    ("not name=clock and name=clock or score<0.4", ["halving"]),
])  # fmt: skip
def test_conditions(runs, where, expected):
    assert names(runs, where=where) == expected


def test_a_field_sorts_and_studies_without_a_value_come_last(runs):
    assert names(runs, sort="score")[:2] == ["halving", "clock"]
    assert names(runs, sort="-score")[:2] == ["clock", "halving"]
    assert set(names(runs, sort="-score")[2:]) == {"link", "folds", "foreign"}
    assert names(runs, sort="-name") == sorted(names(runs), reverse=True)
    refuses("sort: must be one of name", toolkit.studies, sort="best_score")


WRONG = {
    "scor>0.9": "did you mean 'score'?",
    "score~0.9": "the operator after score must be one of =, !=, <",
    "score>x": "score must be a number, given 'x'",
    "score>1 '": "cannot be read",
    "score<1<2": "cannot be read, given 'score<1<2'",
    "strategy>a": "the operator after strategy must be one of =, !=, ~",
    "score>0.9 and": "FIELD OPERATOR VALUE",
    "0.5<score": "must be one of name, state",
    "state=end": "given 'end'; did you mean 'ended'?",
    "date>yesterday": "date must be a time, such as 2026-11-27",
    "": "FIELD OPERATOR VALUE",
    "(" * 5000 + "score>1" + ")" * 5000: "FIELD OPERATOR VALUE",
}


@pytest.mark.parametrize("where", WRONG)
def test_a_condition_that_cannot_be_read_is_refused(capsys, where):
    assert WRONG[where] in refused(capsys, "list", "--where", where, is_silent=True)


def test_one_is_found_by_its_tags(capsys, runs):
    assert hpo(capsys, "note", "halving", "--tag", "phase=final", "--tag", "paper")[0] == 0
    for where in ("tags~paper", "tags~'phase=final'", "tags!=none"):
        assert names(runs, where=where) == ["halving"]


def test_one_that_is_removed_meanwhile_is_left_out(runs, monkeypatch):
    def removed(folder):
        shutil.rmtree(runs / "folds", ignore_errors=True)
        return read_status(folder)

    monkeypatch.setattr("hpo.study.view.from_status.latest_status", removed)
    assert "folds" not in names(runs)


def test_a_running_one_says_by_which_process(runs):
    with StudyFolder(runs / "clock").lock():
        (clock,) = studies(runs, "name=clock").studies
    assert (clock.state, clock.process.process, clock.process.host) == ("running", os.getpid(), os.uname().nodename)


def test_the_command_prints_a_line_a_study_and_one_object_for_programs(capsys, runs):
    code, out, err = hpo(capsys, "list", "--sort", "-score")
    lines = out.splitlines()
    assert (code, err, "\x1b" in out) == (0, "", False)
    assert [line.split()[0] for line in lines[:3]] == ["study", "clock", "halving"]
    assert any(line.startswith("folds: no memory") for line in lines)
    (view,) = studies(Path("runs"), "score<0.4").studies
    listed = {"in": str(runs), "studies": [json.loads(json_line(view.to_dict()))]}
    assert printed(capsys, "list", "--where", "score<0.4")[0] == listed


@pytest.mark.parametrize("width", [70, 200])
def test_at_a_terminal_the_table_is_as_wide_as_that(capsys, monkeypatch, width):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    header, *lines = re.sub("\x1b.*?m", "", hpo(capsys, "list", "--in", str(PUBLISHED))[1]).splitlines()
    assert len(lines) == len(studies(PUBLISHED).studies)
    assert (max(map(len, lines)) <= width, "size" in header) == (True, width == 200)


def test_where_there_is_none(capsys):
    assert hpo(capsys, "list") == (0, "no study in runs; start one with `hpo search`\n", "")
    assert "there is no folder nowhere" in refused(capsys, "list", "--in", "nowhere", is_silent=True)
    assert ([*toolkit.studies().table.columns], list(Path().iterdir())) == ([*FIELDS], [])


def test_published_ones_are_listed_and_python_gets_a_table():
    table = toolkit.studies(PUBLISHED, where="name~digits", sort="name").table
    assert list(table["name"]) == sorted(path.parent.name for path in PUBLISHED.glob("digits*/config.yaml"))
    assert (set(table["state"]), set(table["date"].dt.year)) == ({"ended"}, {2026})
