"""Whatever the functions beside an objective do, a command ends in one line, and in this process alone."""

from pathlib import Path

import pytest

from tests.faults.driver import LOCAL
from tests.faults.driver import hpo as process
from tests.hpo.cli.commands import refused

MODULE = """
import os, sys

class Beyond(BaseException):
    pass

class Speechless(ValueError):
    def __str__(self):
        raise SystemExit(9)

class Stop(Exception):
    def __str__(self):
        raise KeyboardInterrupt

def boom(config):
    {body}

def train(task):
    return {{"score": 1.0}}
"""
OWN = [*LOCAL, "data=none", "model=none", "training=none", "study.trials=3"]
ERRORS = {
    "sys.exit(0)": "raised SystemExit: 0",
    "raise Beyond('out')": "raised Beyond: out",
    "raise Speechless": "its text cannot be read: SystemExit",
    "raise Stop": "raised Stop: (its text cannot be read: KeyboardInterrupt)",
    "raise ValueError": "raised ValueError",
    "raise ValueError('no such thing')": "no such thing",
    "raise RuntimeError('with ' + config['my']['token'])": "raised RuntimeError: with ${oc.env:OUR_TT}",
}


def module(name, body, function):
    Path(f"{name}.py").write_text(MODULE.format(body=body).replace("boom", function))


@pytest.mark.parametrize(
    ("number", "function"),
    [*((number, "check") for number in range(len(ERRORS)))]
    + [(0, function) for function in ("describe_data", "describe_search", "describe_method")],
)
def test_whatever_it_raises_is_told_in_one_line(capsys, monkeypatch, number, function):
    body, words = list(ERRORS.items())[number]
    name = f"boom_{function}_{number}"
    module(name, body, function)
    monkeypatch.setenv("OUR_TT", "PLANTED-4711")
    err = refused(capsys, "search", f"objective={name}:train", "+my.token=${oc.env:OUR_TT}", *OWN)
    assert words in err
    assert "PLANTED" not in err
    assert not Path("runs").exists()


@pytest.mark.slow
def test_a_copy_of_the_process_that_a_check_leaves_behind_searches_nothing(monkeypatch):
    module("forks", "os.fork()", "check")
    code, out, err = process("search", "objective=forks:train", *OWN)
    assert code == 0, err
    assert out.count("winner: ") == 1


@pytest.mark.nightly
def test_a_copy_that_fails_shows_no_secret(monkeypatch):
    module("forks", "if os.fork() == 0: raise ValueError('with ' + config['my']['token'])\n    os.wait()", "check")
    environment = {"OUR_TT": "PLANTED-4711"}
    code, out, err = process("search", "objective=forks:train", "+my.token=${oc.env:OUR_TT}", *OWN, env=environment)
    assert code == 0, err
    assert "ValueError: with ${oc.env:OUR_TT}" in err
    assert "PLANTED" not in out + err
