"""A study whose first workers are starting: it is not created yet, and viewers see that it will be."""

import os
from pathlib import Path

import pytest

from hpo.errors import DispatchError, StudyError
from hpo.session import session
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

    while_starting(view_it)
    found(lambda config: 1.0, space={"lr": [0.1, 0.5]}, trials=2, name="mine")
    (last,) = followed[0]
    assert (last.status.state, last.status.done) == ("ended", 2)


def test_a_study_that_is_never_created_leaves_nothing_and_is_no_longer_followed(while_starting):
    followed = []

    def fail():
        with open_reader("mine") as view:
            followed.append(view.follow())
        next(followed[0])
        raise DispatchError("no workers")

    while_starting(fail)
    with pytest.raises(DispatchError):
        found(lambda config: 1.0, name="mine")
    assert not Path("runs").exists()
    with pytest.raises(StudyError, match="'mine' was not created"):
        next(followed[0])
