"""The list of studies: all of them, filtered and sorted by what each has come to; no record is opened."""

import json
import operator
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hpo as toolkit
from hpo.cli.described import describe
from hpo.commands.show import FIELDS, studies
from hpo.commands.where import condition
from hpo.config.documents import json_line
from hpo.errors import ConfigError
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import read_status
from tests.hpo.cli.commands import hpo, refused
from tests.studies import environment

KEPT = Path(__file__).parents[2] / "end_to_end" / "kept" / "0.1.0"
PUBLISHED = Path(__file__).parents[3] / "studies"


@pytest.fixture
def runs(tmp_path):
    """Studies of every state but running, and folders that are none."""
    runs = tmp_path / "runs"
    for place, name in enumerate(("clock", "folds", "halving")):
        shutil.copytree(KEPT, runs / name)
        values = {
            "format": 1,
            "name": name,
            "state": "ended",
            "strategy": name,
            "metrics": {"loss": "minimize"},
            "budget": 4,
        }
        values |= {
            "begun": 1e9 + place,
            "best": 0,
            "scores": {"loss": 0.5 - place / 10},
            "done": 4,
            "trials": {"complete": 4},
        }
        (runs / name / "status.json").write_text(json.dumps(values))
        # It is not even looked at.
        (runs / name / "study.db").write_bytes(b"no database")
        (runs / name / "config.yaml").write_text("no: study")
    values = json.loads((runs / "folds/status.json").read_text())
    failed = values | {"state": "failed", "error": "no memory\x1b[31m", "scores": {}}
    (runs / "folds/status.json").write_text(json.dumps(failed))
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
    assert names(runs) == ["link", "halving", "folds", "clock", "foreign"]
    states = [view.state for view in found.values()]
    assert states == ["unreadable", "ended", "failed", "ended", "unreadable"]
    assert "status.json" in found["foreign"].error
    assert "is a link" in found["link"].error
    sizes = sum(path.stat().st_size for path in (runs / "halving").rglob("*") if path.is_file())
    assert found["halving"].size == sizes


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("strategy=halving", ["halving"]),
        ("strategy!=halving and state!=unreadable", ["folds", "clock"]),
        ("score<0.4", ["halving"]),
        ("not score<0.4", ["link", "folds", "clock", "foreign"]),
        ("score=none and not state=unreadable", ["folds"]),
        ("(name~c or name='halving') and score!=none", ["halving", "clock"]),
        ('name~"alvi"', ["halving"]),
        ("date>=2001 and date<2002", ["halving", "folds", "clock"]),
        ("date<2001-09-08 or date>'2100-01-01 10:00'", ["foreign"]),
        ("error~memory", ["folds"]),
        ("name=a-b or state = ended", ["halving", "clock"]),
    ],
)
def test_conditions(runs, where, expected):
    assert names(runs, where=where) == expected


def test_a_field_sorts_and_what_has_none_comes_last(runs):
    assert names(runs, sort="score")[:2] == ["halving", "clock"]
    assert names(runs, sort="-score")[:2] == ["clock", "halving"]
    assert set(names(runs, sort="-score")[2:]) == {"link", "folds", "foreign"}
    assert names(runs, sort="-name") == sorted(names(runs), reverse=True)


WRONG = {
    "scor>0.9": "did you mean 'score'?",
    "score>high": "score must be a number, given 'high'",
    "score~0.9": "score is a number, so the operator must be one of =, !=, <",
    "strategy>a": "strategy is a text, so the operator must be one of =, !=, ~",
    "date>yesterday": "date must be a time, such as 2026-11-27",
    "score": "FIELD OPERATOR VALUE",
    "score>": "FIELD OPERATOR VALUE",
    "score>0.9 and": "FIELD OPERATOR VALUE",
    "score>0.9)": "FIELD OPERATOR VALUE",
    "0.5<score": "must be one of name, state",
    "score<0.9<1": "FIELD OPERATOR VALUE",
    "__import__('os')": "must be one of name, state",
    "name='x": "cannot be read",
    "": "FIELD OPERATOR VALUE",
    "(" * 5000 + "score>1" + ")" * 5000: "FIELD OPERATOR VALUE",
}


@pytest.mark.parametrize("where", WRONG)
def test_a_condition_that_cannot_be_read_is_refused(capsys, where):
    assert WRONG[where] in refused(capsys, "list", "--where", where, is_silent=True)
    assert not Path("runs").exists()


SIGNS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(list(SIGNS)), st.integers(-2, 2), st.booleans()), min_size=1
    ),
    st.lists(st.sampled_from(["and", "or"]), min_size=9, max_size=9),
    st.fixed_dictionaries({"a": st.integers(-2, 2), "b": st.integers(-2, 2)}),
)
def test_and_or_and_not_bind_as_in_python(parts, joins, row):
    ours, pythons = [], []
    for place, (field, sign, value, is_not) in enumerate(parts[:9]):
        join = [joins[place]] if place else []
        ours += [*join, *(["not"] if is_not else []), f"{field}{sign}{value}"]
        pythons += [*join, *(["not"] if is_not else []), str(SIGNS[sign](row[field], value))]
    fits = condition(" ".join(ours), {"a": "number", "b": "number"})
    assert fits(row) is eval(" ".join(pythons))  # noqa: S307 -- made here, of True, False, and, or, not


def test_one_is_found_by_its_tags(capsys, runs):
    assert hpo(capsys, "note", "halving", "--tag", "phase=final", "--tag", "paper")[0] == 0
    assert names(runs, where="tags~paper") == names(runs, where="tags~'phase=final'") == ["halving"]
    assert names(runs, where="tags!=none") == ["halving"]


def test_one_that_is_removed_meanwhile_is_left_out(runs, monkeypatch):
    def removed(folder):
        if folder.path.name == "folds":
            shutil.rmtree(folder.path)
        return read_status(folder)

    monkeypatch.setattr("hpo.study.view.from_status.latest_status", removed)
    assert names(runs) == ["link", "halving", "clock", "foreign"]


def test_a_running_one_says_by_which_process(runs):
    with StudyFolder(runs / "clock").lock():
        clock = {view.study: view for view in studies(runs).studies}["clock"]
    assert (clock.state, clock.process.process, clock.process.host) == ("running", os.getpid(), os.uname().nodename)


def test_the_command_prints_a_line_a_study_and_one_object_for_programs(capsys, runs):
    code, out, err = hpo(capsys, "list", "--sort", "-score")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in lines[:3]] == ["study", "clock", "halving"]
    assert len(lines) == 1 + 5 + 3
    assert "\x1b" not in out
    assert any(line.startswith("folds: no memory") for line in lines)
    code, out, _ = hpo(capsys, "list", "--where", "score<0.4", "--json")
    printed = json.loads(out)
    assert (code, printed["in"]) == (0, str(runs))
    (view,) = studies(Path("runs"), "score<0.4").studies
    assert printed["studies"] == [json.loads(json_line(view.to_dict()))]


@pytest.mark.parametrize("width", [70, 100, 200])
def test_at_a_terminal_the_table_is_as_wide_as_that(capsys, monkeypatch, width):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = hpo(capsys, "list", "--in", str(PUBLISHED), "--where", "name~digits")
    header, *lines = re.sub("\x1b.*?m", "", out).splitlines()
    assert (code, len(lines)) == (0, len(studies(PUBLISHED, "name~digits").studies))
    assert max(map(len, lines)) <= width
    assert header.split()[:4] == ["study", "state", "done", "best"]
    assert ("size" in header) == (width == 200)


def test_where_there_is_none(capsys):
    assert hpo(capsys, "list") == (0, "no study in runs; start one with `hpo search`\n", "")
    assert "there is no folder nowhere" in refused(capsys, "list", "--in", "nowhere", is_silent=True)
    assert [*toolkit.studies().table.columns] == [*FIELDS]
    assert list(Path().iterdir()) == []


def test_its_help_names_every_field():
    fields = describe(studies).sections["Fields"]
    assert fields.replace(",", " ").split() == [*FIELDS]


def test_published_ones_are_listed_and_python_gets_a_table():
    table = toolkit.studies(PUBLISHED, where="name~digits", sort="name").table
    assert list(table["name"]) == sorted(path.parent.name for path in PUBLISHED.glob("digits*/config.yaml"))
    assert set(table["state"]) == {"ended"}
    assert (table["score"] > 0.9).all()
    assert (table["date"].dt.year == 2026).all()
    with pytest.raises(ConfigError, match="sort: must be one of name"):
        toolkit.studies(sort="best_score")


def test_what_was_imported_is_listed_with_its_best(runs):
    Path("old.csv").write_text("score,lr\n0.5,0.1\n0.7,0.2\nnan,0.3\n")
    toolkit.import_trials("old", csv="old.csv", metric="score", direction="minimize")
    (listed,) = studies(runs, "state=imported").studies
    assert (listed.study, listed.best.trial, listed.best.score, listed.trials["failed"]) == ("old", 0, 0.5, 1)
    assert (listed.done, listed.budget, listed.data) == (3, 3, "old.csv")
    Path("runs/old/import.json").write_text("{}")
    assert [view.state for view in studies(runs).studies if view.study == "old"] == ["unreadable"]


def test_it_loads_nothing_that_takes_long(runs):
    code = "import sys; from hpo.cli.main import main; main(['list']); print([*sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    loaded = set(process.stdout.splitlines()[-1][2:-2].split("', '"))
    assert {"hpo.commands.show", "pydantic"} <= loaded
    assert loaded.isdisjoint({"pandas", "optuna", "torch", "numpy", "sqlalchemy", "plotly", "mlflow", "ray"})
