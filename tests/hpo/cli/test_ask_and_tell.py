"""`hpo ask` and `hpo tell`: a search whose trainings run elsewhere, by commands alone."""

import io
import json
from pathlib import Path

import pytest

import hpo as toolkit
from tests.hpo.cli.commands import documented, hpo, printed, refused

STUDY = ("search", "objective=outside", "study.name=lab", "study.metric=loss", "study.trials=3", "track=none")
SPACE = ("space.lr={low: 1e-5, high: 0.1, log: true}", "space.layers=[2,4]", "+batch=32")


@pytest.fixture
def lab(capsys):
    code, out, _ = hpo(capsys, *STUDY, *SPACE)
    assert (code, out.count("\n")) == (0, 1)
    assert "`hpo ask lab`, then `hpo tell lab TRIAL loss=VALUE`" in out


def asked(capsys):
    code, out, _ = hpo(capsys, "ask", "lab", "--json")
    assert code == 0
    return json.loads(out)


def test_a_search_by_commands(capsys, monkeypatch, lab):
    trial = asked(capsys)
    assert {*trial} == documented("hpo ask")
    assert trial["config"]["batch"] == 32
    assert {key: trial["config"][key] for key in ("lr", "layers")} == trial["point"]
    assert hpo(capsys, "tell", "lab", "0", "0.5")[:2] == (0, "trial 0: complete 0.5\n")
    code, out, _ = hpo(capsys, "ask", "lab")
    assert (code, out.splitlines()[0], out.splitlines()[-1]) == (0, "trial 1", "then: hpo tell lab 1 loss=VALUE")
    assert hpo(capsys, "tell", "lab", "1", "--step", "2", "loss=0.4")[:2] == (0, "go on\n")
    hpo(capsys, "tell", "lab", "1", "--step", "3", "loss=0.3")
    (training,) = printed(capsys, "show", "lab", "--trial", "1")[0]["tasks"]
    assert (training["state"], training["curve"]) == ("running", [[2, 0.4], [3, 0.3]])
    monkeypatch.setattr("sys.stdin", io.StringIO('{"loss": 0.25, "seconds": 9}'))
    code, out, _ = hpo(capsys, "tell", "lab", "1", "-", "--json")
    told = json.loads(out)
    assert told == {"study": "lab", "trial": 1, "state": "complete", "score": 0.25, "error": None, "should_stop": None}
    assert {*told} == documented("hpo tell")
    asked(capsys)
    assert [trial["trial"] for trial in json.loads(hpo(capsys, "ask", "lab", "--open", "--json")[1])["open"]] == [2]
    assert toolkit.load("lab").status.state == "open"
    assert "hpo ask lab" in hpo(capsys, "show", "lab")[1]
    code, _, err = hpo(capsys, "ask", "lab")
    assert (code, "the budget of 3 is used up; open trials: 2; to go on with a larger budget" in err) == (1, True)
    assert "`hpo resume lab study.trials=6`" in err
    assert not Path("runs/lab/report.md").exists()
    assert hpo(capsys, "tell", "lab", "2", "--error", "no memory")[:2] == (0, "trial 2: failed no memory\n")
    # What ends the search writes its report.
    text = Path("runs/lab/report.md").read_text()
    assert "Reproduction: none here" in text
    study = toolkit.load("lab")
    assert study.status.state == "ended"
    assert study.trials["seconds"].tolist()[1] == 9
    assert study.best.score == 0.25


@pytest.mark.slow
def test_it_goes_on_with_a_larger_budget_and_nothing_here_repeats_it(capsys, lab):
    for number in range(3):
        asked(capsys)
        hpo(capsys, "tell", "lab", str(number), str(number))
    assert hpo(capsys, "resume", "lab", "study.trials=4")[0] == 0
    assert asked(capsys)["trial"] == 3
    for command in (("reproduce", "lab"), ("search", "--replay", "lab")):
        assert "another program trained its trials" in refused(capsys, *command)


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000])
def test_standard_input_that_is_not_json_is_refused(capsys, monkeypatch, lab, content):
    monkeypatch.setattr("sys.stdin", io.StringIO(content))
    assert "VALUE: standard input must be JSON" in refused(capsys, "tell", "lab", "0", "-", is_silent=True)


def test_a_number_that_is_too_large_is_a_failure_as_of_a_training_here(capsys, lab):
    asked(capsys)
    code, out, _ = hpo(capsys, "tell", "lab", "0", "1e308")
    assert (code, "must be between -1e+100 and 1e+100: the training diverged" in out) == (0, True)


def test_what_cannot_be_told_is_refused_and_changes_nothing(capsys, lab):
    asked(capsys)
    for given, text in (
        (("0", "accuracy=1"), "trial 0: the result must have a number for loss, given {'accuracy': 1.0}"),
        (("0", "loss=x"), "VALUE: must be a number, NAME=NUMBER or -, given 'loss=x'"),
        (("0", "0.5", "--error", "broken"), "error: a failed trial has no result"),
        (("0", "--step", "3"), "--step: a point of the learning curve of trial 0 must have NAME=NUMBER"),
        (("5", "0.5"), "trial 5: was not asked for; open trials: 0"),
    ):
        assert text in refused(capsys, "tell", "lab", *given, is_silent=True)
    assert toolkit.load("lab").trials["state"].tolist() == ["running"]


def test_a_budget_below_what_there_is_names_what_has_ended_and_what_has_begun(capsys, lab):
    for _ in range(3):
        asked(capsys)
    hpo(capsys, "tell", "lab", "0", "0.5")
    said = refused(capsys, "resume", "lab", "study.trials=2")
    assert "must be at least 3, given 2; the study already has 3 trials (1 ended, 2 unfinished)" in said


def test_what_is_refused_while_it_is_open_or_has_no_test_part_names_what_helps(capsys, lab):
    with toolkit.open(name="lab"):
        for command in (("stop", "lab"), ("remove", "lab", "--yes")):
            said = refused(capsys, *command)
            assert "close it there (`session.close()`)" in said
            assert "hpo stop" not in said
    said = refused(capsys, "test", "lab")
    assert "has no test split" in said
    assert "hpo resume" not in said
