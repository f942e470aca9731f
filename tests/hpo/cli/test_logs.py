"""`hpo logs` and `hpo note`: what trainings printed and what users wrote is in the study's folder, and shown."""

import os
import sys
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from types import SimpleNamespace

import pytest

import hpo as toolkit
from hpo.session.stopping import SessionDispatcher, Stopping
from hpo.study.files.folder import StudyFolder
from hpo.trials.trial import Outcome, TaskLayout
from hpo.workers.dispatch.dispatcher import report_of
from hpo.workers.dispatch.printed import MOST_CHARACTERS, Echo
from hpo.workers.training.tasks import FINAL_FOLD, Task
from tests.hpo.cli.commands import documented, hpo, printed, refused
from tests.hpo.commands.searched import found


@pytest.fixture
def folder(study):
    """Return the folder of a study whose trial 0 printed something in two of its three trainings."""
    folder = StudyFolder(study)
    ends = [(0, "one\ntwo\n"), (1, ""), (FINAL_FOLD, "last\n")]
    outcome = Outcome({"score": 1.0})
    reports = [report_of(Task(0, i, None), {"outcome": outcome, "printed": text}) for i, text in ends]
    dispatcher = SimpleNamespace(runs_here=False, slots=1, gpus=None, wait=lambda _timeout: reports)
    logged = SimpleNamespace(folder=folder, layout=TaskLayout(folds=2))
    assert [report.outcome for report in SessionDispatcher(dispatcher, Stopping(), logged).wait()] == [outcome] * 3
    return folder


def test_logs_are_listed_and_shown(capsys, folder):
    first = "runs/made/logs/trial_0000_fold_0.log"
    code, out, _ = hpo(capsys, "logs", "made")
    assert (code, f"{first}  2 lines  two\n" in out, out.count("\n")) == (0, True, 2)
    assert hpo(capsys, "logs", "made", "0", "--tail", "1")[1].endswith(f"== {first}\ntwo\n")
    assert "tail: has no effect without the number of a trial" in refused(capsys, "logs", "made", "--tail", "1")
    assert set(toolkit.load("made").logs(0).text.splitlines()) == {"one", "two", "last"}
    assert folder.logs_dir.stat().st_mode & 0o077 == 0
    listed, path = printed(capsys, "logs", "made")[0], str(folder.log_path(0, "fold_0"))
    (log,) = [log for log in listed["logs"] if log["task"] == "fold_0"]
    assert (set(listed), set(log)) == (documented("hpo logs"), documented("What a training printed"))
    assert log == {"trial": 0, "task": "fold_0", "path": path, "lines": 2, "last": "two", "text": None}
    for file in folder.logs_dir.iterdir():
        file.unlink()
    assert "trial 0 of study 'runs/made' has no logs: no Python code printed " in refused(capsys, "logs", "made", "0")


def test_a_log_that_is_a_pipe_is_said_and_not_read(capsys, folder):
    path = folder.log_path(0, "fold_0")
    path.unlink()
    os.mkfifo(path)
    for words in (("logs", "made"), ("logs", "made", "0")):
        assert "trial_0000_fold_0.log: is not a regular file, and is not read" in hpo(capsys, *words)[1]
    assert hpo(capsys, "show", "made", "--trial", "0")[0] == 0


def test_the_log_of_a_running_training_is_written_at_its_reports(monkeypatch):
    monkeypatch.setattr("hpo.workers.dispatch.printed.SECONDS_BETWEEN_LOGS", 0.0)

    def train(config, trial):
        for epoch in (1, 2):
            sys.stdout.write(f"in epoch {epoch}\n")
            trial.report(epoch=epoch, score=0.0)
            logs = toolkit.load("live").logs(0).text.splitlines() if epoch == 2 else []
            assert logs == ["in epoch 1"][: epoch - 1]
        return config["lr"]

    found(train, trials=1, name="live")
    assert toolkit.load("live").logs(0).text.splitlines() == ["in epoch 1", "in epoch 2"]


def test_what_is_printed_in_this_process_is_shown_and_saved_without_secrets(capsys, monkeypatch):
    monkeypatch.setenv("TOKEN", "abracadabra")

    def train(config, trial):
        sys.stdout.write(f"begun with {config['token']}\n")
        trial.report(epoch=1, score=0.0)
        sys.stderr.write("at the end\n")
        return config["lr"]

    found(train, trials=1, config={"token": "${oc.env:TOKEN}"})
    shown = capsys.readouterr()
    assert ("begun with abracadabra" in shown.out, "at the end" in shown.err) == (True, True)
    saved = toolkit.load("train").logs(0).text
    assert (saved.startswith("begun with "), saved.endswith("at the end\n")) == (True, True)
    assert "abracadabra" not in saved


def test_of_a_long_output_the_end_is_saved():
    echo, lines = Echo(), [f"{number:06}\n" for number in range(100_000)]
    for line in lines:
        echo.keep(line)
    assert echo.text() == "".join(lines)[-MOST_CHARACTERS:]


def test_a_stream_that_a_task_redirects_is_its_own_in_the_next_step_too():
    echo, stack = Echo(), ExitStack()
    with echo.listening():
        own = stack.enter_context(redirect_stdout(StringIO()))
    with echo.listening(), stack:
        sys.stdout.write("captured\n")
    assert (own.getvalue(), echo.text()) == ("captured\n", "")


def test_a_failure_ends_with_what_was_printed_last():
    failed = Outcome(error="ValueError: no luck", details="Traceback")
    report = report_of(Task(0, 0, None), {"outcome": failed, "printed": "\n".join(map(str, range(50)))})
    head, _, last = report.outcome.details.partition("printed last:\n")
    assert head.startswith("Traceback")
    assert last.splitlines() == [str(number) for number in range(30, 50)]


def test_notes_that_are_written_are_listed(capsys, study):
    assert hpo(capsys, "note", "made") == (0, "", "")
    hpo(capsys, "note", "made", "an odd \x1b[31m", "seed", "--tag", "phase=final", "--tag", "paper")
    code, out, err = hpo(capsys, "note", "made", "--tag", "phase=")
    assert (code, err, out.count("\n")) == (0, "", 2)
    assert "an odd  [31m seed, phase=final, paper=true\n" in out.replace("\ufffd", " ")
    shown, _ = printed(capsys, "note", "made")
    assert (set(shown), shown["tags"]) == (documented("hpo note"), {"paper": "true"})
    loaded = toolkit.load("made")
    loaded.note("from Python")
    assert (loaded.notes[-1].text, loaded.tags) == ("from Python", {"paper": "true"})
