"""A study whose first workers are starting: it is not created yet, and viewers see that it will be."""

import os
from pathlib import Path

import pytest

from hpo.errors import DispatchError, StudyError
from hpo.session import session
from hpo.study.files.folder import StudyFolder
from hpo.study.view.reader import open_reader
from tests.hpo.cli.commands import hpo, printed, refused
from tests.hpo.commands.searched import found


def test_it_is_shown_listed_and_followed(capsys, monkeypatch):
    make, followed = session.make_dispatcher, []
    monkeypatch.setattr("hpo.study.view.reader.StudyReader.seconds", 0.0)
    monkeypatch.setattr(session, "make_dispatcher", lambda *given: (view_it(), make(*given))[1])

    def view_it():
        assert "mine: starting since " in hpo(capsys, "show", "mine")[1]
        shown, _ = printed(capsys, "show", "mine")
        assert (shown["state"], shown["phase"], shown["fault"]) == ("running", "starting", None)
        assert "is just starting" in refused(capsys, "show", "mine", "--trial", "0", is_silent=True)
        assert f"runs/mine is being run by process {os.getpid()}" in refused(capsys, "stop", "mine", is_silent=True)
        (listed,) = printed(capsys, "list")[0]["studies"]
        assert (listed["study"], listed["state"], listed["process"]["process"]) == ("mine", "running", os.getpid())
        with open_reader("mine") as view:
            followed.append(view.follow())
        assert next(followed[0]).status.phase == "starting"

    found(lambda config: 1.0, space={"lr": [0.1, 0.5]}, trials=2, name="mine")
    (last,) = followed[0]
    assert (last.status.state, last.status.done) == ("ended", 2)


def test_a_study_that_is_never_created_leaves_nothing_and_is_no_longer_followed(monkeypatch):
    followed = []

    def fail(*_):
        with open_reader("mine") as view:
            followed.append(view.follow())
        assert next(followed[0]).status.phase == "starting"
        raise DispatchError("no workers")

    monkeypatch.setattr("hpo.study.view.reader.StudyReader.seconds", 0.0)
    monkeypatch.setattr(session, "make_dispatcher", fail)
    with pytest.raises(DispatchError):
        found(lambda config: 1.0, name="mine")
    assert not Path("runs").exists()
    with pytest.raises(StudyError, match="'mine' was not created: the process that was starting it has ended"):
        next(followed[0])


def test_a_running_comparison_is_not_listed_as_a_starting_study(capsys):
    folder = StudyFolder(Path("runs/compare-two"))
    folder.make()
    (folder.path / "comparison.yaml").touch()
    with folder.lock():
        assert printed(capsys, "list")[0]["studies"] == []
        for command in (("show",), ("watch", "--wait", "0.1")):
            assert "is being run by process" in refused(capsys, *command, "compare-two", is_silent=True)
