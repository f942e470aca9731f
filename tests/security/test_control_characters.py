"""Texts of a stranger's files are printed without control characters: a terminal would execute them."""

import contextlib
import json
from pathlib import Path

import pytest
import yaml

from hpo.cli.main import main
from hpo.errors import printable
from tests.hpo.cli.commands import hpo, searched
from tests.studies import toy_config

EVIL = "\x1b]0;owned\x07\x1b[2J\r\u202e\nreproduced: all 9 trainings"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of a study of one trial."""
    tree = toy_config(trials=1)
    folder = tmp_path_factory.mktemp("toy")
    with contextlib.chdir(folder):
        Path("toy.yaml").write_text(yaml.safe_dump(tree))
        assert main(["search", "--config", "toy.yaml"]) == 0
    return (folder / "runs/toy/report.json").read_text()


@pytest.mark.quick("keys4")
@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [
        ("environment", "python"),
        ("environment", "packages", "torch"),
        ("environment", "packages", EVIL),
        ("environment", EVIL),
        ("study", "allowed_changes"),
        ("config", "study", "metric"),
        ("config", "strategy", "name"),
        ("config", "toy", "nonlinearity"),
        ("config", EVIL),
        ("space", 0, "key"),
        ("winner", "values", EVIL),
        ("winner", "point", "toy.lr"),
        ("data", "files"),
    ],
)
def test_no_field_of_a_report_reaches_the_terminal_as_it_is(capsys, report, keys):
    changed = inner = json.loads(report)
    for key in keys[:-1]:
        inner = inner[key]
    lists = {"allowed_changes": [{"changes": [EVIL]}], "files": [{"path": EVIL, "sha256": EVIL}]}
    inner[keys[-1]] = lists.get(keys[-1], EVIL)
    Path("mailed.json").write_text(json.dumps(changed))
    code, out, err = hpo(capsys, "reproduce", "mailed.json", "--trust")
    assert code in (0, 1, 2)
    assert all(printable(line) == line for line in (out + err).split("\n"))
    assert "reproduced: all 9 trainings" not in (out + err).splitlines()


@pytest.mark.slow
def test_neither_do_those_of_a_study(capsys):
    space = {"toy": {"layers": [1, 2]}, "other": {"text": {"choices": [EVIL]}}}
    searched(capsys, toy_config(trials=1, space=space, other={"text": "x"}))
    looking = ["list"], ["show", "toy"], ["show", "toy", "--trial", "0"]
    for command in (["search", "--replay", "toy"], ["report", "toy"], ["compare", "toy", "toy-replay"], *looking):
        code, out, err = hpo(capsys, *command, *(["track=none", "dispatch=local"] if "--replay" in command else []))
        assert code == 0, out + err
        assert all(printable(line) == line for line in (out + err).split("\n")), command
