"""Files of a study beside its record that are damaged, or are no files: one line, and nothing is opened or lost."""

import json
import os
from pathlib import Path

import pytest

from tests.hpo.cli.commands import hpo, refused


@pytest.mark.parametrize("content", ["{}", "[]", '{"python": "3.11"}'])
def test_a_test_part_is_not_opened_for_a_report_that_could_not_be_written(capsys, study, content):
    (study / "environment.json").write_text(content)
    assert "environment.json" in refused(capsys, "test", "made")
    assert not (study / "test.json").exists()
    assert not Path("runs/test_evaluations.jsonl").exists()


def test_nothing_is_trained_for_a_report_that_could_not_be_written(capsys, study):
    before = (study / "study.db").read_bytes()
    (study / "environment.json").unlink()
    assert "environment.json: is missing" in refused(capsys, "resume", "made", "study.trials=3")
    assert (study / "study.db").read_bytes() == before


def test_an_opening_that_the_ledger_has_lost_is_remembered(capsys, study):
    assert hpo(capsys, "test", "made", "--no-default")[0] == 0
    Path("runs/test_evaluations.jsonl").unlink()
    assert "was scored before" in refused(capsys, "test", "made")
    assert hpo(capsys, "test", "made", "--no-default", "--again")[0] == 0
    assert json.loads((study / "test.json").read_text())["evaluations_of_these_data"] == 2


@pytest.mark.quick("mkdir-study.db.mark", "mkfifo-driver.lock")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["report.json", "trials.csv", "study.db.mark", "driver.lock"])
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_lies_in_the_place_of_a_file_is_named_and_hangs_nobody(capsys, study, name, make):
    (study / name).unlink(missing_ok=True)
    make(study / name)
    code, _, err = hpo(capsys, "resume", "made", "study.trials=3")
    if name in ("report.json", "trials.csv") and make is os.mkfifo:
        # Written anew beside it, and put in its place.
        assert (code, (study / name).is_file()) == (0, True)
    else:
        assert code in (1, 2)
        assert err.count("\n") == 1
        assert str(study / name) in err
