"""Files of a study beside its record that are damaged, or are no files: one line, and nothing is opened or lost."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.hpo.cli.commands import hpo


@pytest.fixture
def made(finished):
    """A finished study in runs/made."""
    shutil.copytree(finished / "runs", "runs")
    return Path("runs/made")


def refused(capsys, *arguments):
    """Return the exit code and the line with which a command refuses."""
    code, _, err = hpo(capsys, *arguments)
    (line,) = err.strip().splitlines()
    assert line.startswith("error: ")
    return code, line


@pytest.mark.parametrize("content", ["{}", "[]", '{"python": "3.11"}'])
def test_a_test_part_is_not_opened_for_a_report_that_could_not_be_written(capsys, made, content):
    (made / "environment.json").write_text(content)
    code, line = refused(capsys, "test", "made")
    assert code == 2
    assert "environment.json" in line
    assert not (made / "test.json").exists()
    assert not Path("runs/test_openings.jsonl").exists()


def test_an_opening_that_the_ledger_has_lost_is_remembered(capsys, made):
    assert hpo(capsys, "test", "made", "--no-default")[0] == 0
    Path("runs/test_openings.jsonl").unlink()
    code, line = refused(capsys, "test", "made")
    assert (code, "was opened before" in line) == (2, True)
    assert hpo(capsys, "test", "made", "--no-default", "--again")[0] == 0
    assert json.loads((made / "test.json").read_text())["openings_of_these_data"] == 2


@pytest.mark.parametrize("name", ["report.json", "trials.csv", "study.db.mark", "driver.lock"])
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_lies_in_the_place_of_a_file_is_named_and_hangs_nobody(capsys, made, name, make):
    (made / name).unlink(missing_ok=True)
    make(made / name)
    code, _, err = hpo(capsys, "resume", "made", "study.trials=3")
    if name in ("report.json", "trials.csv") and make is os.mkfifo:
        # Written anew beside it, and put in its place.
        assert (code, (made / name).is_file()) == (0, True)
    else:
        assert code in (1, 2)
        assert err.count("\n") == 1
        assert str(made / name) in err
