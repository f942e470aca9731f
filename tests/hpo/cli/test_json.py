"""`--json`: one object on standard output and nothing else, also where the command fails."""

import json
from pathlib import Path

import pytest

from hpo.cli.output import as_json
from tests.hpo.cli.commands import hpo

# A fault of each kind: of the command line, each class of the error tree that needs no machine, and the system's own.
FAULTS = {
    "no such command": ["serach"],
    "no such option": ["logs", "made", "--nope"],
    "a bad value of an option": ["logs", "made", "--tail", "0"],
    "no such study": ["logs", "nothing"],
    "nothing printed": ["logs", "made"],
    "a name that no file can have": ["logs", "x" * 5000],
}


def printed(capsys, *arguments):
    """Return the exit code, the object, and what is on standard error."""
    code, out, err = hpo(capsys, *arguments, "--json")
    assert out.count("\n") == 1, out
    return code, json.loads(out), err


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_has_the_same_text_and_exit_code(capsys, study, case):
    code, out, err = hpo(capsys, *FAULTS[case])
    assert (out, err.startswith("error: ")) == ("", True)
    assert printed(capsys, *FAULTS[case]) == (code, {"error": err[len("error: ") : -1], "exit_code": code}, err)


def test_what_json_cannot_say_is_null_and_paths_are_text():
    values = {"a": float("nan"), "b": [float("inf"), 1], "c": Path("x"), "d": {"e": (True, None)}}
    assert as_json(values) == {"a": None, "b": [None, 1], "c": "x", "d": {"e": [True, None]}}
