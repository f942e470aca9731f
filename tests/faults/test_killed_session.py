"""A process that asks and tells is killed: what it was told is there, what was not is open, and no trial is another."""

import subprocess
import sys

import pytest

import hpo
from tests.studies import environment

OPEN = {"space": {"lr": (0.0, 1.0)}, "direction": "maximize", "strategy": "evolutionary", "trials": 8}
CALLS = f"""
import hpo, os, signal
session = hpo.open(**{OPEN!r}, name="killed", settings={{"track": "none"}})
first, second = session.ask(), session.ask()
session.tell(first, 0.5)
second.report(0.25)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_session_that_is_killed_goes_on_with_what_was_told():
    done = subprocess.run([sys.executable, "-c", CALLS], env=environment(), check=False)
    assert done.returncode == -9
    assert hpo.load("killed").status.state == "open"
    with hpo.open(name="killed") as session, hpo.open(**OPEN, name="unbroken", settings={"track": "none"}) as unbroken:
        first, second = unbroken.ask(), unbroken.ask()
        unbroken.tell(first, 0.5)
        unbroken.tell(second, 0.25)
        assert session.study.trials["score"].tolist()[0] == 0.5
        (left,) = session.open_trials
        assert left.point == second.point
        assert session.tell(left)["score"] == 0.25
        assert [session.ask().point for _ in range(6)] == [unbroken.ask().point for _ in range(6)]
