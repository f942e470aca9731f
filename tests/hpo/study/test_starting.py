"""A study whose first workers are just starting: it is not created yet, and those who look on see that it will be."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpo.errors import DispatchError, StudyError
from hpo.session import session
from hpo.study.files.folder import StudyFolder
from hpo.study.view.reader import open_reader
from tests.hpo.cli.commands import hpo, printed, refused
from tests.hpo.commands.searched import found
from tests.studies import environment

HERE = {"space": {"lr": [0.1, 0.5]}, "trials": 2, "name": "mine"}


def score(config):
    return config["lr"]


@pytest.fixture
def starts(monkeypatch):
    """Let something be done while the workers start."""

    def while_starting(do):
        kept = session.make_dispatcher

        def made(*given):
            do()
            return kept(*given)

        monkeypatch.setattr(session, "make_dispatcher", made)

    return while_starting


def test_it_is_shown_listed_and_followed(capsys, starts, monkeypatch):
    monkeypatch.setattr("hpo.study.view.reader.StudyReader.seconds", 0.0)
    followed = []

    def look():
        code, out, err = hpo(capsys, "show", "mine")
        assert (code, err, out.count("\n")) == (0, "", 2), out + err
        assert f"mine: starting since {time.strftime('%H:')}" in out
        assert f"by process {os.getpid()} on " in out
        assert "hpo watch mine " in out
        shown, _ = printed(capsys, "show", "mine")
        assert (shown["state"], shown["phase"], shown["fault"]) == ("running", "starting", None)
        assert "is just starting" in refused(capsys, "show", "mine", "--trial", "0", is_silent=True)
        assert f"runs/mine is being run by process {os.getpid()}" in refused(capsys, "stop", "mine", is_silent=True)
        (listed,) = printed(capsys, "list")[0]["studies"]
        assert (listed["study"], listed["state"], listed["process"]["process"]) == ("mine", "running", os.getpid())
        with open_reader("mine") as view:
            followed.append(view.follow())
        assert next(followed[0]).status.phase == "starting"
        with pytest.raises(StudyError, match="is being run by process"), view.folder.lock():
            pass

    starts(look)
    found(score, **HERE)
    (last,) = followed[0]
    assert (last.status.state, last.status.done) == ("ended", 2)


def test_one_that_is_never_created_is_followed_no_longer_and_leaves_nothing(capsys, starts, monkeypatch):
    monkeypatch.setattr("hpo.study.view.reader.StudyReader.seconds", 0.0)

    def fail():
        with open_reader("mine") as view:
            followed.append(view.follow())
        next(followed[0])
        raise DispatchError("no workers")

    followed = []
    starts(fail)
    with pytest.raises(DispatchError):
        found(score, **HERE)
    with pytest.raises(StudyError, match="'mine' was not created"):
        next(followed[0])
    assert not Path("runs").exists()
    assert "there is no 'mine'" in refused(capsys, "watch", "mine", "--wait", "0.1", is_silent=True)


def test_a_comparison_that_runs_is_no_study_that_starts(capsys):
    folder = StudyFolder(Path("runs/compare-two"))
    folder.make()
    (folder.path / "comparison.yaml").write_text("")
    with folder.lock():
        assert printed(capsys, "list")[0]["studies"] == []
        for command in ("show", "watch"):
            assert "is being run by process" in refused(capsys, command, "compare-two", is_silent=True)


@pytest.mark.slow
def test_one_that_is_ended_at_once_leaves_nothing_and_a_watch_has_waited_for_it():
    Path("obj.py").write_text("def f(config):\n    return 1.0\n")
    Path("search.py").write_text(
        "import time\nfrom hpo.session import program, session\nfrom hpo.cli.main import main\nprogram.take_over()\n"
        "session.make_dispatcher = lambda *_: [time.sleep(0.1) for _ in range(600)]\n"
        "main(['search', 'objective=obj:f(config)', '+lr=0.1', 'space.lr=[0.1,0.2]', 'study.direction=minimize', "
        "'study.name=mine', 'dispatch=local', 'track=none'])\n"
    )
    options = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "search.py"], **options) as search:
        while not StudyFolder(Path("runs/mine")).is_starting:
            assert search.poll() is None
            time.sleep(0.05)
        with subprocess.Popen([sys.executable, "-m", "hpo", "watch", "mine"], **options) as watch:
            assert watch.stdout.readline().startswith("study mine: starting since ")
            search.send_signal(signal.SIGINT)
            search.communicate(timeout=30)
            assert not Path("runs").exists()
            assert "'mine' was not created" in watch.communicate(timeout=30)[1]
    assert watch.returncode == 2
