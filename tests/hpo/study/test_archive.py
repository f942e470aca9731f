"""A study as one file, and `hpo archive`: the study comes back as it was, or not at all."""

import io
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.errors import ConfigError, HpoError, StudyError
from hpo.study.storage.archive import archive, unarchive
from hpo.study.test_log import all_evaluations, write_evaluation
from tests.hpo.cli.commands import documented, hpo, printed, refused, searched
from tests.hpo.study.killed import killed_at, tree
from tests.studies import StudyFolder, refuses, run_toy, toy_config

FILE = Path("toy.tar.gz")
# Made again by SQLite, by the record's guard, and by the driver.
MADE_AGAIN = ("study.db", "study.db.mark", "study.db.backup", "driver.lock")


def own(folder):
    return {name: content for name, content in tree(folder).items() if name not in MADE_AGAIN}


def rows_of(folder):
    with closing(sqlite3.connect(folder.database_path)) as record:
        return [*record.iterdump()]


def test_it_comes_back_with_all_that_is_not_made_again_and_goes_on(toy, tmp_path):
    (toy.path / "states/x/empty").mkdir(parents=True)
    (toy.path / "states/x/.hidden").write_bytes(b"\x00")
    (toy.path / "states/latest").symlink_to("x")
    (toy.path / "mirrored.txt").write_text("1 file:///mirror\n")
    write_evaluation(toy, {"time": "once", "study": "toy", "study_id": "1", "trial": 0, "fingerprint": "f"})
    with closing(sqlite3.connect(toy.database_path)) as other:
        # What is only in SQLite's write-ahead log comes along.
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("CREATE TABLE ours (x)")
        other.commit()
        archive(toy, FILE)
    back = unarchive(FILE, Path("other"))
    assert (own(back.path), rows_of(back)) == (own(toy.path), rows_of(toy))
    assert "CREATE TABLE ours (x);" in rows_of(back)
    assert ((back.path / "states/x/empty").is_dir(), (back.path / "states/latest").readlink()) == (True, Path("x"))
    assert back.path.stat().st_mode & 0o777 == 0o700
    assert len(all_evaluations(StudyFolder(Path("other/another")), "f")) == 1
    assert run_toy(back.path, toy_config(trials=3)) == run_toy(tmp_path / "whole", toy_config(trials=3))


def rebuilt(name=None, kind=tarfile.REGTYPE, target="", content=b"", *, without=None, change=(b"", b"")):
    """Write the archive again without a member, with its contents changed, or with one member more."""
    with tarfile.open(FILE) as before, tarfile.open("changed.tar.gz", "w:gz") as after:
        for member in before:
            packed = before.extractfile(member).read() if member.isfile() else b""
            if member.name != without:
                after.addfile(member, io.BytesIO(packed.replace(*change)))
        if name:
            more = tarfile.TarInfo(name)
            more.type, more.linkname, more.size = kind, target, len(content)
            after.addfile(more, io.BytesIO(content))
    return Path("changed.tar.gz").read_bytes()


DAMAGES = {
    "empty": lambda archived: b"",
    "truncated": lambda archived: archived[:2000],
    "a byte": lambda archived: archived[:3000] + bytes([archived[3000] ^ 255]) + archived[3001:],
    "without a manifest": lambda _: rebuilt(without="manifest.json"),
    "a list as its manifest": lambda _: rebuilt("manifest.json", content=b"[]", without="manifest.json"),
    "without its folder": lambda _: rebuilt(without="toy"),
    "without a file": lambda _: rebuilt(without="toy/trials.csv"),
    "another content": lambda _: rebuilt(change=(b"random", b"rAndom")),
    "a further file": lambda _: rebuilt("toy/more"),
    "a path that leads out": lambda _: rebuilt("toy/../../out"),
    "an absolute path": lambda _: rebuilt("/tmp/hpo-out"),
    "a link that leads out": lambda _: rebuilt("toy/out", tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link that leads out": lambda _: rebuilt("toy/out", tarfile.LNKTYPE, "/etc/passwd"),
    "a pipe": lambda _: rebuilt("toy/out", tarfile.FIFOTYPE),
}


@pytest.fixture(scope="module")
def archived(made_toy, tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / FILE
    archive(StudyFolder(made_toy), path)
    return path.read_bytes()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_refused_in_one_line_and_nothing_is_written(archived, damage):
    FILE.write_bytes(archived)
    FILE.write_bytes(DAMAGES[damage](archived))
    Path("changed.tar.gz").unlink(missing_ok=True)
    refuses(HpoError, r"toy\.tar\.gz", unarchive, FILE)
    assert [path.name for path in Path().iterdir()] == ["toy.tar.gz"]
    assert not Path("/tmp/hpo-out").exists()


def test_a_bad_path_or_a_damaged_record_is_refused_and_nothing_is_written(toy):
    FILE.write_text("mine")
    refuses(StudyError, "already exists", archive, toy, FILE)
    refuses(StudyError, "inside the study's folder", archive, toy, Path("runs/toy/x.tar.gz"))
    refuses(StudyError, "there is no directory none", archive, toy, Path("none/x.tar.gz"))
    refuses(ConfigError, r"must be a file NAME\.tar\.gz", archive, toy, Path("toy.zip"))
    refuses(StudyError, r"there is no file none\.tar\.gz", unarchive, Path("none.tar.gz"))
    toy.database_path.write_bytes(b"x" * 5000)
    refuses(StudyError, r"record: .*study\.db is damaged", archive, toy, Path("new.tar.gz"))
    assert (FILE.read_text(), Path("new.tar.gz").exists()) == ("mine", False)


def test_a_killed_archive_or_restore_leaves_nothing_that_is_taken_for_a_study(toy, archived, monkeypatch):
    with killed_at(monkeypatch, 0):
        archive(toy, FILE)
    assert not FILE.exists()
    FILE.write_bytes(archived)
    with killed_at(monkeypatch, 0):
        unarchive(FILE, Path("other"))
    assert not any(Path("other").glob("*/config.yaml"))
    assert unarchive(FILE, Path("other")).exists


def test_the_command_writes_an_archive_and_restores_it_where_it_was_made_without_asking(capsys, study):
    found, _ = printed(capsys, "archive", "made", "made.tar.gz")
    assert (set(found), found["bytes"]) == (documented("hpo archive"), Path("made.tar.gz").stat().st_size)
    assert Path("made.tar.gz").stat().st_mode & 0o077 == 0
    before = tree("runs")
    assert "runs/made already exists" in refused(capsys, "archive", "--restore", "made.tar.gz", is_silent=True)
    assert tree("runs") == before
    shutil.rmtree(study)
    assert printed(capsys, "archive", "--restore", "made.tar.gz")[0]["folder"] == str(study.absolute())
    assert toolkit.unarchive("made.tar.gz", "other").best.number == 0
    for wrong in (["made"], ["--restore", "x", "made"], []):
        assert "command line: " in refused(capsys, "archive", *wrong, is_silent=True)
    assert "--in: has no effect without --restore" in refused(capsys, "archive", "made", "x.tar.gz", "--in", "y")


def test_a_strangers_archive_is_only_copied_until_it_is_trusted(capsys, monkeypatch, tmp_path):
    Path("ours.py").write_text("def train(config):\n    return 1.0\n")
    config = toy_config(trials=1, objective="ours:train")
    config["study"]["storage"] = f"sqlite:///{tmp_path}/else.db"
    searched(capsys, config)
    assert hpo(capsys, "archive", "toy", "toy.tar.gz")[0] == 0
    assert hpo(capsys, "archive", "--restore", "toy.tar.gz", "--in", "at_home")[0] == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    said = refused(capsys, "archive", "--restore", "toy.tar.gz", "--in", "first")
    for words in ("it runs ours:train", f"connects to study.storage=sqlite:///{tmp_path}/else.db", "was copied"):
        assert words in said
    assert Path("first/toy/config.yaml").exists()
    assert hpo(capsys, "archive", "--restore", "toy.tar.gz", "--in", "second", "--trust")[0] == 0
    assert hpo(capsys, "archive", "--restore", "toy.tar.gz", "--in", "third")[0] == 0
