"""`hpo logs`: what trainings printed is in the study's folder, and shown."""

import os
import sys
from types import SimpleNamespace

import pytest

import hpo as toolkit
from hpo.session.stopping import SessionDispatcher, Stopping
from hpo.study.files.folder import StudyFolder, find_study
from hpo.trials.trial import Outcome, TaskLayout
from hpo.workers.dispatch.dispatcher import report_of
from hpo.workers.dispatch.local import MOST_CHARACTERS, Echo
from hpo.workers.training.tasks import FINAL_FOLD, Task
from tests.hpo.cli.commands import hpo, refused, searched
from tests.hpo.commands.searched import found
from tests.studies import toy_config


@pytest.fixture
def study(capsys):
    searched(capsys, toy_config("random", {"toy": {"layers": [1, 2]}}, 2))
    folder = StudyFolder(find_study("toy").path)
    ends = [(0, 0, "one\ntwo\n"), (1, 0, ""), (1, 1, "three\n"), (1, FINAL_FOLD, "last\n")]
    outcome = Outcome({"score": 1.0})
    reports = [report_of(Task(t, i, None), {"outcome": outcome, "printed": text}) for t, i, text in ends]
    said = SimpleNamespace(runs_here=False, slots=1, gpus=None, wait=lambda _timeout: reports)
    logged = SimpleNamespace(folder=folder, layout=TaskLayout(folds=2))
    assert SessionDispatcher(said, Stopping(), logged).wait() == reports
    return folder


def test_logs_are_listed_and_shown(capsys, study):
    code, out, _ = hpo(capsys, "logs", "toy")
    assert code == 0
    assert out.splitlines() == [
        "runs/toy/logs/trial_0000_fold_0.log  2 lines  two",
        "runs/toy/logs/trial_0001_final.log  1 lines  last",
        "runs/toy/logs/trial_0001_fold_1.log  1 lines  three",
    ]
    assert hpo(capsys, "logs", "toy", "0", "--tail", "1")[1] == "== runs/toy/logs/trial_0000_fold_0.log\ntwo\n"
    assert toolkit.load("toy").logs(1).text == "last\nthree\n"
    assert study.logs_dir.stat().st_mode & 0o077 == 0


def test_what_is_not_there_is_told(capsys, study):
    assert "study 'runs/toy' has no trial 7; its trials are 0 to 1" in refused(
        capsys, "logs", "toy", "7", is_silent=True
    )
    study.log_path(0, "fold_0").unlink()
    said = refused(capsys, "logs", "toy", "0", is_silent=True)
    assert "trial 0 of study 'runs/toy' has no logs: no Python code printed anything; with dispatch=local" in said
    assert "must be 1 or more" in refused(capsys, "logs", "toy", "--tail", "0", is_silent=True)


def test_a_log_that_is_a_pipe_is_said_and_not_read(capsys, study):
    path = study.log_path(0, "fold_0")
    path.unlink()
    os.mkfifo(path)
    for words in (("logs", "toy"), ("logs", "toy", "0")):
        assert "trial_0000_fold_0.log: is not a regular file, and is not read" in hpo(capsys, *words)[1]
    assert "is not a regular file" in toolkit.load("toy").logs(0).text
    assert hpo(capsys, "show", "toy", "--trial", "0")[0] == 0


def test_what_is_printed_in_this_process_is_shown_and_kept(capsys, monkeypatch):
    monkeypatch.setenv("TOKEN", "abracadabra")

    def train(config, trial):
        sys.stdout.write(f"begun with {config['token']}\n")
        trial.report(epoch=1, score=0.0)
        sys.stderr.write("at the end\n")
        return config["lr"]

    found(train, trials=1, config={"token": "${oc.env:TOKEN}"})
    said = capsys.readouterr()
    assert "begun with abracadabra" in said.out
    assert "at the end" in said.err
    kept = toolkit.load("train").logs(0).text
    assert kept.startswith("begun with ")
    assert kept.endswith("at the end\n")
    assert "abracadabra" not in kept


def test_of_a_long_output_the_end_is_kept():
    echo = Echo()
    for number in range(100_000):
        echo.keep(f"{number:06}\n")
    assert echo.text() == "".join(f"{number:06}\n" for number in range(100_000))[-MOST_CHARACTERS:]


def test_a_failure_ends_with_what_was_printed_last():
    failed = Outcome(error="ValueError: no luck", details="Traceback")
    printed = "\n".join(map(str, range(50)))
    report = report_of(Task(0, 0, None), {"outcome": failed, "printed": printed})
    head, _, last = report.outcome.details.partition("printed last:\n")
    assert head.startswith("Traceback")
    assert last.splitlines() == [str(number) for number in range(30, 50)]
