"""`hpo ask` and `hpo tell`: a search whose trainings run elsewhere, by commands alone."""

import io
from pathlib import Path

import pytest

import hpo as toolkit
from tests.hpo.cli.commands import documented, hpo, printed, prints, refused

STUDY = ("search", "objective=outside", "study.name=lab", "study.metric=loss", "study.trials=3", "track=none")
SPACE = ("space.lr={low: 1e-5, high: 0.1, log: true}", "space.layers=[2,4]", "+batch=32", "report.figures=false")


@pytest.fixture
def lab(capsys):
    code, out, _ = hpo(capsys, *STUDY, *SPACE)
    assert (code, out.count("\n")) == (0, 1)
    assert "`hpo ask lab`, then `hpo tell lab TRIAL loss=VALUE`" in out


def asked(capsys):
    return printed(capsys, "ask", "lab")[0]


@pytest.mark.slow
@pytest.mark.usefixtures("lab")
def test_a_search_by_commands(capsys, monkeypatch):
    trial = asked(capsys)
    assert ({*trial}, trial["config"]["batch"]) == (documented("hpo ask"), 32)
    assert {key: trial["config"][key] for key in ("lr", "layers")} == trial["point"]
    assert hpo(capsys, "tell", "lab", "0", "0.5")[:2] == (0, "trial 0: complete 0.5\n")
    assert hpo(capsys, "ask", "lab")[1].splitlines()[-1] == "then: hpo tell lab 1 loss=VALUE"
    assert hpo(capsys, "tell", "lab", "1", "--step", "2", "loss=0.4")[:2] == (0, "go on\n")
    (training,) = printed(capsys, "show", "lab", "--trial", "1")[0]["tasks"]
    assert (training["state"], training["curve"]) == ("running", [[2, 0.4]])
    monkeypatch.setattr("sys.stdin", io.StringIO('{"loss": 0.25, "seconds": 9}'))
    told, _ = printed(capsys, "tell", "lab", "1", "-")
    assert told == {"study": "lab", "trial": 1, "state": "complete", "score": 0.25, "error": None, "should_stop": None}
    assert {*told} == documented("hpo tell")
    asked(capsys)
    assert [trial["trial"] for trial in printed(capsys, "ask", "lab", "--open")[0]["open"]] == [2]
    assert "hpo ask lab" in hpo(capsys, "show", "lab")[1]
    code, _, err = hpo(capsys, "ask", "lab")
    assert (code, "the budget of 3 is used up; open trials: 2" in err) == (1, True)
    assert "`hpo resume lab study.trials=6`" in err
    assert hpo(capsys, "tell", "lab", "2", "--error", "no memory")[:2] == (0, "trial 2: failed no memory\n")
    # The last result ends the search and writes the report.
    assert "Reproduction: none here" in Path("runs/lab/report.md").read_text()
    study = toolkit.load("lab")
    assert (study.status.state, study.trials["seconds"].tolist()[1], study.best.score) == ("ended", 9, 0.25)
    # A larger budget continues it; nothing here repeats it.
    assert (hpo(capsys, "resume", "lab", "study.trials=4")[0], asked(capsys)["trial"]) == (0, 3)
    for command in (("reproduce", "lab"), ("search", "--replay", "lab")):
        assert "another program trained the study's trials" in refused(capsys, *command)


@pytest.mark.slow
@pytest.mark.usefixtures("lab")
def test_bad_results_are_refused_and_change_nothing(capsys, monkeypatch):
    asked(capsys)
    for given, text in (
        (("0", "accuracy=1"), "trial 0: the result must have a number for loss, given {'accuracy': 1.0}"),
        (("0", "loss=x"), "VALUE: must be a number, NAME=NUMBER or '-', given 'loss=x'"),
        (("0", "0.5", "--error", "broken"), "error: a failed trial has no result"),
        (("0", "--step", "3"), "--step: adds to trial 0's learning curve; give VALUE or NAME=NUMBER"),
        (("5", "0.5"), "trial 5: was not asked for; open trials: 0"),
    ):
        assert text in refused(capsys, "tell", "lab", *given, is_silent=True)
    monkeypatch.setattr("sys.stdin", io.StringIO("{"))
    assert "VALUE: standard input must be JSON" in refused(capsys, "tell", "lab", "0", "-", is_silent=True)
    assert toolkit.load("lab").trials["state"].tolist() == ["running"]
    # A number that is too large is a failure, as of a training here.
    assert "must be between -1e+100 and 1e+100: the training diverged" in prints(capsys, "tell", "lab", "0", "1e308")


@pytest.mark.usefixtures("lab")
def test_commands_that_an_open_study_without_a_test_split_refuses_say_what_helps(capsys):
    with toolkit.open(name="lab"):
        for command in (("stop", "lab"), ("remove", "lab", "--yes")):
            line = refused(capsys, *command)
            assert ("`session.close()`" in line, "hpo stop" in line) == (True, False)
    line = refused(capsys, "test", "lab")
    assert ("has no test split" in line, "hpo resume" in line) == (True, False)
