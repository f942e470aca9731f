"""Studies of earlier code: they open, report and reproduce; those by the clock go on, those in rounds do not."""

import json
import shutil
from pathlib import Path

import pytest

from tests.hpo.cli.commands import hpo
from tests.studies import rows

KEPT = Path(__file__).parent / "kept"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return what puts a kept study into runs/ of a working directory of the test's own."""
    monkeypatch.chdir(tmp_path)

    def put(name):
        shutil.copytree(KEPT / name, tmp_path / "runs" / name)
        return tmp_path / "runs" / name

    return put


def reports_and_reproduces(capsys, folder):
    code, out, err = hpo(capsys, "report", folder.name)
    assert code == 0, out + err
    before, now = (json.loads((place / "report.json").read_text()) for place in (KEPT / folder.name, folder))
    assert now["winner"] == before["winner"]
    code, out, err = hpo(capsys, "reproduce", folder.name)
    if "demanded: the same to the last bit" in out:
        assert (code, "reproduced: all" in out) == (0, True), out + err
    else:
        # Another processor or version: small networks may take another way.
        assert (code in (0, 1), "reproduced: " in out) == (True, True), out + err


@pytest.mark.quick("holdout")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["holdout", "folds", "halving"])
def test_one_in_rounds_is_reported_its_winner_reproduced_and_its_search_not_continued(kept, capsys, name):
    folder = kept(name)
    reports_and_reproduces(capsys, folder)
    before = rows(folder / "trials.csv")
    assert before == rows(KEPT / name / "trials.csv")
    for command in (["resume", name, f"study.trials={len(before) + 2}"], ["search", "--replay", name, "--trust"]):
        code, out, err = hpo(capsys, *command)
        assert (code, "was searched in rounds by hpo" in err, err.count("\n")) == (2, True, 1), out + err
    assert rows(folder / "trials.csv") == before


@pytest.mark.slow
def test_one_by_the_clock_goes_on(kept, capsys):
    folder = kept("clock")
    reports_and_reproduces(capsys, folder)
    before = rows(folder / "trials.csv")
    code, out, err = hpo(capsys, "resume", "clock", "study.trials=6", "--allow-changes")
    assert code == 0, out + err
    after = rows(folder / "trials.csv")
    assert (after[: len(before)], len(after)) == (before, 6)


def test_its_test_part_is_opened(kept, capsys):
    kept("holdout")
    code, out, err = hpo(capsys, "test", "holdout")
    assert (code, "opened 1 time" in out) == (0, True), out + err


def test_a_comparison_takes_their_own_winners(kept, capsys):
    """With finalists that is not the trial of the best score, nor with halving one that was trained for less."""
    names = ("holdout", "folds", "halving")
    reports = [json.loads((kept(name) / "report.json").read_text()) for name in names]
    code, out, err = hpo(capsys, "compare", *names)
    assert code == 0, out + err
    comparison = json.loads(Path("runs/compare-holdout-folds-halving/comparison.json").read_text())
    assert [winner["trial"] for winner in comparison["winners"]] == [report["winner"]["number"] for report in reports]
    assert reports[0]["winner"]["score"] < max(trial["score"] for trial in reports[0]["top"])
