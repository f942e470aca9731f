"""Ask and tell, by `hpo.open` and by commands alone: results are reported, and the study is one like every other."""

import io
import math
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import hpo
from tests.hpo.cli.commands import documented, printed, prints, refused
from tests.hpo.cli.commands import hpo as command
from tests.hpo.commands.searched import SPACE, found, refuses, score

pytestmark = pytest.mark.slow

OWN = {"lr": 0.5, "net.layers": 2, "net.act": "tanh", "dropout": 0.125}


def opened(**arguments):
    settings = {"track": "none", **arguments.pop("settings", {})}
    given = {"space": SPACE, "name": "lab", "trials": 6, "direction": "maximize"} | arguments
    return hpo.open(**given, settings=settings)


def test_one_trial_after_another_is_the_search_by_one_worker():
    """The reference is `hpo.search` in free order, which knows all earlier results."""
    with opened(strategy="evolutionary", trials=9) as session:
        for trial in session:
            session.tell(trial, score(trial.config))
    searched = found(score, trials=9, strategy="evolutionary", settings={"study.order": "free"})
    columns = ["number", "score", "lr", "net.layers", "net.act", "dropout", "state"]
    assert session.study.trials[columns].equals(searched.trials[columns])
    assert session.study.best.point == searched.best.point
    refuses("study: 'score' has an objective that the toolkit trains", hpo.open, name="score")


def test_values_are_those_that_a_function_gets():
    kinds = {"big": dict, "small": list}
    with opened(space={"lr": (0.0, 1.0), "net": {"kind": hpo.choices(**kinds)}}, config={"size": (3, 4)}) as session:
        trial = session.ask()
        lr, kind = trial["lr"], trial["net.kind"]
        assert trial.config == {"lr": lr, "net": {"kind": kind}, "size": (3, 4)}
        assert trial.point == {"lr": lr, "net.kind": kind}
        assert (kind in kinds.values(), trial["net"]["kind"], trial.amount) == (True, kind, None)
        with pytest.raises(KeyError):
            trial["nothing"]


def test_a_reported_result_is_in_the_record_at_once_and_other_trials_stay_open():
    session = opened()
    done, left, failed = session.ask(), session.ask(), session.ask()
    session.tell(done, {"score": 0.5, "seconds": 12, "checkpoint": "here"})
    left.report(0.25, step=3)
    trials = hpo.load("lab").trials
    assert trials["state"].tolist() == ["complete", "running", "running"]
    assert (trials["score"][0], trials["seconds"][0], trials["checkpoint"][0]) == (0.5, 12, "here")
    assert session.best.number == 0
    refuses(r"is open in process \d+ .*`session.close\(\)`", opened)
    session.close()
    with opened() as session:
        assert [trial.point for trial in session.open_trials] == [left.point, failed.point]
        session.tell(failed.number, error="out of\nmemory")
        session.tell(left.number)
        whys = {left.number: r"has a result already \(complete\)", 7: "was not asked for", "1": "was not asked for"}
        for number, why in whys.items():
            refuses(f"trial {number!r}: {why}; open trials: none", session.tell, number, 1.0)
    trials = session.study.trials
    assert trials["state"].tolist() == ["complete", "complete", "failed"]
    assert (trials["score"][1], trials["error"][2]) == (0.25, "fold 0: out of memory")


def test_a_point_added_by_the_user_is_asked_for_next():
    with opened(strategy="evolutionary") as session:
        session.ask()
        session.add(OWN)
        refuses("is already added", session.add, OWN)
        # Nothing answers requests of other processes here, and nobody waits for an answer.
        for request in (lambda: session.study.add({**OWN, "lr": 0.25}), lambda: session.study.resume(9)):
            refuses(r"is open in .* process \d+ .*accepts no requests", request)
        assert session.ask().point == OWN
    session.study.add({**OWN, "lr": 0.25})
    with opened(strategy="evolutionary") as session:
        assert session.ask().point == {**OWN, "lr": 0.25}


def test_a_budget_ends_it_and_a_larger_one_goes_on():
    with opened(trials=2) as session:
        assert [trial.number for trial in session] == [0, 1]
        with pytest.raises(hpo.NoTrialError, match=r"the budget of 2 trials is used up.*; open trials: 0, 1") as raised:
            session.ask()
        assert (raised.value.is_waiting, session.is_over) == (False, False)
        for trial in session.open_trials:
            session.tell(trial, [math.nan] if trial.number else 0.5)
        assert session.is_over
    session.close()
    refuses("is closed; open it again", session.ask)
    assert session.study.trials["state"].tolist() == ["complete", "failed"]
    with hpo.open(name="lab", trials=3) as session:
        assert [trial.number for trial in session] == [2]
    with opened(trials=2) as session:
        assert [trial.number for trial in session.open_trials] == [2]


def test_a_strategy_of_rounds_says_which_results_it_waits_for():
    with opened(strategy={"name": "successive_halving", "max_amount": 4, "eta": 2}, trials=20) as session:
        with pytest.raises(hpo.NoTrialError, match="the strategy waits for the results of trials 0, 1, 2, 3") as raised:
            list(session)
        assert raised.value.is_waiting
        first = session.open_trials
        assert {trial.amount for trial in first} == {1}
        for trial in first:
            session.tell(trial, trial["lr"])
        more, best = session.ask(), max(first, key=lambda trial: trial["lr"])
        assert (more.point, more.amount, more.trained, more.continues) == (best.point, 2, 1, best.number)


def test_the_median_rule_says_when_to_stop():
    with opened(trials=7, settings={"study.stop_rule": "median"}) as session:
        for trial in [session.ask() for _ in range(5)]:
            trial.report(1.0)
            assert not trial.should_stop
            session.tell(trial)
        behind, ahead = session.ask(), session.ask()
        behind.report(0.5)
        ahead.report(2.0)
        assert (behind.should_stop, ahead.should_stop) == (True, False)
        assert session.tell(behind) == {"state": "stopped", "score": 0.5, "error": None}


def test_steps_rise_and_are_counted_on_from_what_a_trial_continues():
    asha = {"name": "asha", "min_amount": 2, "max_amount": 6, "eta": 3}
    with opened(trials=4, strategy=asha) as session:
        for _ in range(3):
            trial = session.ask()
            trial.report(0.9)
            trial.report(0.5)
            session.tell(trial)
        trial = session.ask()
        assert (trial.amount, trial.trained) == (6, 2)
        trial.report(0.7)
    with opened(trials=4, strategy=asha) as session:
        (trial,) = session.open_trials
        trial.report(0.6, 5)
        for given, says in (((0.2, 5), "must be above 5, .* given 5"), ((0.2,), "given no epoch after epochs")):
            refuses(says, trial.report, *given)
        session.tell(trial)
        # The best of all is the first step of the trial that it continues.
        trials = session.study.trials
        assert (trials["reached"].tolist(), trials["score"].tolist()) == ([2, 2, 2, 5], [0.9] * 4)


def test_several_metrics_and_limits_are_reported_by_name_and_settings_of_trainings_are_refused():
    metrics = {"accuracy": "maximize", "latency": "minimize"}
    with opened(direction=None, metric=metrics, limits={"memory": 8}, trials=4) as session:
        first, second = session.ask(), session.ask()
        assert first.metrics == ("accuracy", "latency", "memory")
        for result in [(1, 2), {"accuracy": 1, "latency": 1}]:
            refuses("returned no 'memory'; it returned: accuracy, latency", session.tell, first, result)
        session.tell(first, {"accuracy": 1.0, "latency": 1.0, "memory": 9})
        session.tell(second, {"accuracy": 0.5, "latency": 1.0, "memory": 8})
        assert session.best.number == second.number
    for key in ("repeats", "finalists", "minutes", "trial_minutes", "stop_after_failures"):
        refuses(f"{key}: has no effect on a study .* trains, given 2", opened, name="x", settings={f"study.{key}": 2})


def test_in_another_thread_each_call_is_refused_and_nothing_is_sent_to_another_process():
    with opened() as session, ThreadPoolExecutor(1) as pool:
        trial = session.ask()
        calls = [session.ask, lambda: session.add({"lr": 0.5}), lambda: session.tell(trial, 1.0), session.close]
        calls += [lambda: trial.report(1.0), lambda: trial.should_stop]
        calls += [lambda: session.open_trials, lambda: session.is_over]
        for call in calls:
            refuses("`hpo ask lab` and `hpo tell lab TRIAL score=VALUE`", pool.submit(call).result)
        for sent in (session, trial):
            refuses("only the thread that opened", pickle.dumps, sent)
        session.tell(trial, 1.0)
    assert session.study.trials["state"].tolist() == ["complete"]


def test_a_failure_is_reported_by_its_exception_and_what_is_no_number_is_refused():
    with opened() as session:
        try:
            raise ValueError("2\nis too large")
        except ValueError as error:
            result = session.tell(session.ask(), error=error)
        assert result["state"] == "failed"
        assert re.fullmatch(r"ValueError at test_session.py:\d+: 2 is too large", result["error"])
        trial = session.ask()
        for other in (ValueError, 5, True, ["a"]):
            refuses("error: must be a text or an exception", session.tell, trial, error=other)
        for given in (("x",), ([1, 2],), (0.5, "x"), (0.5, [1])):
            refuses(r"trial 1: report\(\) takes ", trial.report, *given)
        refuses("several values as 'a/b'", session.tell, trial, {"score": 1.0, "a/b": 1, "a": {"b": 2}})
        assert [session.tell(session.ask(), value)["state"] for value in (np.float32("nan"), 10**101)] == ["failed"] * 2
        with opened(name="other") as other:
            refuses("trial 1: belongs to study 'lab', and this session is of study 'other'", other.tell, trial, 0.77)
            assert trial.number in [each.number for each in session.open_trials]


STUDY = ("search", "objective=outside", "study.name=lab", "study.metric=loss", "study.trials=3", "track=none")
TYPED_SPACE = ("space.lr={low: 1e-5, high: 0.1, log: true}", "space.layers=[2,4]", "+batch=32", "report.figures=false")


@pytest.fixture
def lab(capsys):
    code, out, _ = command(capsys, *STUDY, *TYPED_SPACE)
    assert (code, out.count("\n"), "`hpo ask lab`, then `hpo tell lab TRIAL loss=VALUE`" in out) == (0, 1, True)


def asked(capsys):
    return printed(capsys, "ask", "lab")[0]


@pytest.mark.usefixtures("lab")
def test_a_search_by_commands(capsys, monkeypatch):
    trial = asked(capsys)
    assert ({*trial}, trial["config"]["batch"]) == (documented("hpo ask"), 32)
    assert {key: trial["config"][key] for key in ("lr", "layers")} == trial["point"]
    assert command(capsys, "tell", "lab", "0", "0.5")[:2] == (0, "trial 0: complete 0.5\n")
    assert command(capsys, "ask", "lab")[1].splitlines()[-1] == "then: hpo tell lab 1 loss=VALUE"
    assert command(capsys, "tell", "lab", "1", "--step", "2", "loss=0.4")[:2] == (0, "go on\n")
    (training,) = printed(capsys, "show", "lab", "--trial", "1")[0]["tasks"]
    assert (training["state"], training["curve"]) == ("running", [[2, 0.4]])
    monkeypatch.setattr("sys.stdin", io.StringIO('{"loss": 0.25, "seconds": 9}'))
    told, _ = printed(capsys, "tell", "lab", "1", "-")
    assert told == {"study": "lab", "trial": 1, "state": "complete", "score": 0.25, "error": None, "should_stop": None}
    assert {*told} == documented("hpo tell")
    asked(capsys)
    assert [trial["trial"] for trial in printed(capsys, "ask", "lab", "--open")[0]["open"]] == [2]
    assert "hpo ask lab" in command(capsys, "show", "lab")[1]
    code, _, err = command(capsys, "ask", "lab")
    assert (code, "the budget of 3 trials is used up; open trials: 2" in err) == (1, True)
    assert "`hpo resume lab study.trials=6`" in err
    assert command(capsys, "tell", "lab", "2", "--error", "no memory")[:2] == (0, "trial 2: failed no memory\n")
    assert "Reproduction: impossible" in Path("runs/lab/report.md").read_text()
    study = hpo.load("lab")
    assert (study.status.state, study.trials["seconds"].tolist()[1], study.best.score) == ("ended", 9, 0.25)
    # A larger budget continues it; nothing here repeats it.
    assert (command(capsys, "resume", "lab", "study.trials=4")[0], asked(capsys)["trial"]) == (0, 3)
    for words in (("reproduce", "lab"), ("search", "--replay", "lab")):
        assert "another program trained the study's trials" in refused(capsys, *words)


@pytest.mark.usefixtures("lab")
def test_bad_results_are_refused_and_change_nothing(capsys, monkeypatch):
    asked(capsys)
    for given, text in (
        (("0", "accuracy=1"), "trial 0: the objective returned no 'loss'; it returned: accuracy; for a failed"),
        (("0", "loss=x", "0.1"), "VALUE: must be a number, NAME=NUMBER for each metric, or '-', given 'loss=x 0.1'"),
        (("0", "-5e-1", "--error", "broken"), "error: a failed trial has no result"),
        (("0", "--step", "3"), "--step: adds a point to trial 0's learning curve; give VALUE or NAME=NUMBER"),
        (("0", "loss=1", "loss=2"), "VALUE: must have loss only once, given loss=1.0 and loss=2.0"),
    ):
        assert text in refused(capsys, "tell", "lab", *given, is_silent=True)
    monkeypatch.setattr("sys.stdin", io.StringIO("{"))
    assert "VALUE: standard input must be JSON" in refused(capsys, "tell", "lab", "0", "-", is_silent=True)
    assert hpo.load("lab").trials["state"].tolist() == ["running"]
    # A number that is too large is a failure, as of a training here.
    assert "must be between -1e+100 and 1e+100: the training diverged" in prints(capsys, "tell", "lab", "0", "1e308")


@pytest.mark.usefixtures("lab")
def test_commands_that_an_open_study_without_a_test_split_refuses_say_what_helps(capsys):
    with hpo.open(name="lab"):
        for words in (("stop", "lab"), ("remove", "lab", "--yes")):
            line = refused(capsys, *words)
            assert ("`session.close()`" in line, "hpo stop" in line) == (True, False)
    line = refused(capsys, "test", "lab")
    assert ("has no test split" in line, "hpo resume" in line) == (True, False)
