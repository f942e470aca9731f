"""Whatever the optional functions of an objective raise, a command ends with one line, in this process alone."""

from pathlib import Path

import pytest

from tests.faults.driver import LOCAL
from tests.faults.driver import hpo as process
from tests.hpo.cli.commands import refused

MODULE = """
import os, sys
class Beyond(BaseException):
    pass
def {function}(config):
    {body}
def train(task):
    return {{"score": 1.0}}
"""
OWN = ["+my.token=${oc.env:OUR_TT}", *LOCAL, "data=none", "model=none", "training=none", "study.trials=3"]
RAISED = [
    ("check", "sys.exit(0)", "raised SystemExit: 0"),
    ("check", "raise Beyond('out')", "raised Beyond: out"),
    ("check", "raise RuntimeError('with ' + config['my']['token'])", "raised RuntimeError: with ${oc.env:OUR_TT}"),
    *((f"describe_{what}", "sys.exit(0)", "raised SystemExit: 0") for what in ("data", "search", "method")),
]


@pytest.mark.parametrize("number", range(len(RAISED)))
def test_whatever_it_raises_is_one_line(capsys, monkeypatch, number):
    function, body, words = RAISED[number]
    Path(f"raises_{number}.py").write_text(MODULE.format(function=function, body=body))
    monkeypatch.setenv("OUR_TT", "PLANTED-4711")
    err = refused(capsys, "search", f"objective=raises_{number}:train", *OWN)
    assert words in err
    assert "PLANTED" not in err
    assert not Path("runs").exists()


@pytest.mark.slow
def test_copies_of_the_process_that_a_check_leaves_behind_neither_search_nor_print_a_secret():
    body = "os.fork()\n    if os.fork() == 0: raise ValueError('with ' + config['my']['token'])"
    Path("forks.py").write_text(MODULE.format(function="check", body=body))
    code, out, err = process("search", "objective=forks:train", *OWN, env={"OUR_TT": "PLANTED-4711"})
    assert code == 0, err
    assert out.count("winner: ") == 1
    assert "ValueError: with ${oc.env:OUR_TT}" in err
    assert "PLANTED" not in out + err
