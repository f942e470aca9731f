"""A study whose first workers are starting: it is not created yet, and viewers see that it will be."""

import os
import time
from pathlib import Path

import pytest

from hpo.errors import DispatchError, StudyError
from hpo.session import session
from hpo.study.files.folder import StudyFolder
from hpo.study.view.reader import open_reader
from tests.hpo.cli.commands import hpo, printed, refused
from tests.hpo.commands.searched import found


@pytest.fixture
def while_starting(monkeypatch):
    """Let something be done while the workers start."""
    monkeypatch.setattr("hpo.study.view.reader.StudyReader.seconds", 0.0)

    def let(act):
        make = session.make_dispatcher
        monkeypatch.setattr(session, "make_dispatcher", lambda *given: (act(), make(*given))[1])

    return let


def test_it_is_shown_listed_and_followed(capsys, while_starting):
    followed = []

    def view_it():
        code, out, err = hpo(capsys, "show", "mine")
        assert (code, err, out.count("\n")) == (0, "", 2), out + err
        for words in (f"mine: starting since {time.strftime('%H:')}", f"process {os.getpid()} on ", "hpo watch mine "):
            assert words in out
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

    while_starting(view_it)
    found(lambda config: 1.0, space={"lr": [0.1, 0.5]}, trials=2, name="mine")
    (last,) = followed[0]
    assert (last.status.state, last.status.done) == ("ended", 2)


def test_a_study_that_is_never_created_is_followed_no_longer_and_leaves_nothing(capsys, while_starting):
    followed = []

    def fail():
        with open_reader("mine") as view:
            followed.append(view.follow())
        next(followed[0])
        raise DispatchError("no workers")

    while_starting(fail)
    with pytest.raises(DispatchError):
        found(lambda config: 1.0, name="mine")
    with pytest.raises(StudyError, match="'mine' was not created"):
        next(followed[0])
    assert not Path("runs").exists()
    assert "there is no 'mine'" in refused(capsys, "watch", "mine", "--wait", "0.1", is_silent=True)


def test_a_running_comparison_is_not_listed_as_a_starting_study(capsys):
    folder = StudyFolder(Path("runs/compare-two"))
    folder.make()
    (folder.path / "comparison.yaml").write_text("")
    with folder.lock():
        assert printed(capsys, "list")[0]["studies"] == []
        for command in (("show",), ("watch", "--wait", "0.1")):
            assert "is being run by process" in refused(capsys, *command, "compare-two", is_silent=True)
