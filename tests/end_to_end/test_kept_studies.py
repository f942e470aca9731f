"""Studies of released versions, and published ones, are reported, reproduced, continued; another format is refused."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from hpo.errors import StudyError
from hpo.report.sections.report import ReportJson
from hpo.study.upgrade import FORMAT, upgraded
from tests.hpo.cli.commands import hpo, prints, refused
from tests.studies import REPOSITORY, rows

KEPT = Path(__file__).parent / "kept"
STUDIES = REPOSITORY / "studies"
PUBLISHED = sorted(path.parent for path in STUDIES.glob("*/trials.csv"))


def reproduced(capsys, study):
    """Assert that the winner comes out again: bitwise on such a processor, else it may differ."""
    code, out, err = hpo(capsys, "reproduce", study)
    assert "reproduced: " in out, out + err
    assert code == 0 if "required: bitwise equal scores" in out else code in (0, 1), out + err


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in KEPT.iterdir()))
def test_it_is_reported_tested_reproduced_and_continued(capsys, name):
    folder = Path(shutil.copytree(KEPT / name, Path("runs", name)))
    prints(capsys, "report", name)
    before, now = (json.loads((place / "report.json").read_text()) for place in (KEPT / name, folder))
    expected = [report["winner"].pop("expected") for report in (before, now)]
    # Linear algebra rounds differently on another processor.
    assert expected[1] == pytest.approx(expected[0])
    assert now["winner"] == before["winner"]
    reproduced(capsys, name)
    assert "evaluated 1 time" in prints(capsys, "test", name)
    there = rows(folder / "trials.csv")
    prints(capsys, "resume", name, f"study.trials={len(there) + 2}", "--allow-changes")
    after = rows(folder / "trials.csv")
    assert (after[: len(there)], len(after)) == (there, len(there) + 2)


COMMANDS = [("resume",), ("resume", "study.trials=9"), ("report",), ("test",), ("reproduce",), ("search --replay",)]
COMMANDS += [("archive", "a.tar.gz"), ("sync",), ("add", "training.lr=0.1"), ("export", "--optuna", "sqlite:///x.db")]
COMMANDS += [("note", "hello"), ("extend", "training.epochs=3"), ("compare", "0.1.0"), ("clean",), ("logs",)]


@pytest.mark.parametrize(
    ("number", "why"), [(None, "before the first release"), (FORMAT + 1, "a later version of hpo wrote")]
)
def test_another_format_is_named_by_every_command_and_the_study_stays_as_it_is(capsys, number, why):
    folder = Path(shutil.copytree(KEPT / "0.1.0", "runs/0.1.0"))
    environment = json.loads((folder / "environment.json").read_text()) | {"format": number}
    (folder / "environment.json").write_text(json.dumps(environment))
    (folder / "status.json").unlink()
    # The configuration may be of another form too, so it is read later.
    (folder / "config.yaml").write_text("of: another form\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for command, *more in COMMANDS:
        assert why in refused(capsys, *command.split(), "0.1.0", *more, is_silent=True), command
    for words in (["list"], ["show", "0.1.0"]):
        assert why in " ".join(prints(capsys, *words).split())
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    prints(capsys, "remove", "0.1.0", "--yes")
    assert not folder.exists()


def test_an_older_document_is_upgraded_step_by_step_and_another_refused():
    steps = {
        ("report", 1): lambda document: {"winner": document["best"]},
        ("report", 3): lambda document: document | {"winner": {"number": document["winner"]}},
        ("status", 1): lambda _: {},
    }
    document = {"format": 1, "best": 7}
    assert upgraded("report", document, "runs/x", steps, to=4) == {"format": 4, "winner": {"number": 7}}
    assert document == {"format": 1, "best": 7}
    assert upgraded("report", {"format": FORMAT, "a": [1]}, "runs/x") == {"format": FORMAT, "a": [1]}
    for number in (None, "1", True, 0, FORMAT + 1):
        with pytest.raises(StudyError, match=f"^runs/x: .* must be {FORMAT}, given .*; (a later|before the first)"):
            upgraded("study", {"format": number}, "runs/x")


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_its_files_belong_together(folder):
    report = json.loads((folder / "report.json").read_text())
    TypeAdapter(ReportJson).validate_python(report)
    for name, digest in report["files"].items():
        # The winner's model is not published.
        assert "/" in name or hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    winner = next(row for row in rows(folder / "trials.csv") if row["number"] == str(report["winner"]["number"]))
    assert float(winner["score"]) == report["winner"]["score"]
    assert report["environment"]["is_dirty"] is False
    table = (STUDIES / "README.md").read_text().splitlines()
    (line,) = [line for line in table if f"]({folder.name}/report.md)" in line]
    assert f"{report['winner']['score']:.4f}" in line


@pytest.mark.nightly
def test_the_winner_of_the_quickest_comes_out_again(capsys):
    reproduced(capsys, str(STUDIES / "modular_addition"))
