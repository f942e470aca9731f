"""Studies that released versions have made: they open, report, reproduce and go on; another format is refused."""

import json
import shutil
from pathlib import Path

import pytest

from tests.hpo.cli.commands import hpo, refused
from tests.studies import rows

KEPT = Path(__file__).parent / "kept"
RELEASED = sorted(path.name for path in KEPT.iterdir())


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return what puts a kept study into runs/ of a working directory of the test's own."""
    monkeypatch.chdir(tmp_path)
    return lambda name: shutil.copytree(KEPT / name, tmp_path / "runs" / name)


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASED)
def test_one_is_reported_its_winner_reproduced_and_its_search_goes_on(kept, capsys, name):
    folder = kept(name)
    code, out, err = hpo(capsys, "report", name)
    assert code == 0, out + err
    before, now = (json.loads((place / "report.json").read_text()) for place in (KEPT / name, folder))
    expected = [report["winner"].pop("expected") for report in (before, now)]
    # Linear algebra of another processor rounds otherwise.
    assert expected[1] == pytest.approx(expected[0])
    assert now["winner"] == before["winner"]
    code, out, err = hpo(capsys, "reproduce", name)
    if "required: bitwise equal scores" in out:
        assert (code, "reproduced: all" in out) == (0, True), out + err
    else:
        # Another processor or version: small networks may take another way.
        assert (code in (0, 1), "reproduced: " in out) == (True, True), out + err
    there = rows(folder / "trials.csv")
    code, out, err = hpo(capsys, "resume", name, f"study.trials={len(there) + 2}", "--allow-changes")
    assert code == 0, out + err
    after = rows(folder / "trials.csv")
    assert (after[: len(there)], len(after)) == (there, len(there) + 2)


@pytest.mark.parametrize("name", RELEASED)
def test_its_test_part_is_opened(kept, capsys, name):
    kept(name)
    code, out, err = hpo(capsys, "test", name)
    assert (code, "evaluated 1 time" in out) == (0, True), out + err


FORMATS = {
    None: "its format is none, not 1: it was made before the first release; finish it with the commit that made it",
    2: "its format is 2, not 1: it was made by a later version",
}


COMMANDS = (
    *(("resume",), ("resume", "study.trials=9"), ("report",), ("test",), ("reproduce",), ("search --replay",)),
    *(("archive", "a.tar.gz"), ("sync",), ("add", "training.lr=0.1"), ("export", "--optuna", "sqlite:///x.db")),
    *(("note", "hello"), ("extend", "training.epochs=3"), ("compare", "0.1.0"), ("clean",), ("logs",)),
)


@pytest.mark.parametrize("number", FORMATS)
def test_one_of_another_format_is_named_by_every_command_and_nothing_of_it_is_touched(kept, capsys, number):
    folder = kept("0.1.0")
    environment = json.loads((folder / "environment.json").read_text()) | {"format": number}
    (folder / "environment.json").write_text(json.dumps(environment))
    (folder / "status.json").unlink()
    # Before its configuration is read, which may be of another form, too.
    (folder / "config.yaml").write_text("of: another form\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for command, *more in COMMANDS:
        assert FORMATS[number] in refused(capsys, *command.split(), "0.1.0", *more, is_silent=True), command
    for command in ("list", "show"):
        code, out, err = hpo(capsys, command, *(["0.1.0"] if command == "show" else []))
        assert (code, FORMATS[number] in " ".join(out.split())) == (0, True), out + err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert hpo(capsys, "remove", "0.1.0", "--yes")[0] == 0
    assert not folder.exists()
