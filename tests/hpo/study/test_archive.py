"""A study as one file: it comes back as it went, or not at all."""

import io
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from hpo.errors import ConfigError, HpoError, StudyError
from hpo.study.files.folder import StudyFolder
from hpo.study.storage.archive import archive, unarchive
from hpo.study.test_log import all_evaluations, write_evaluation
from tests.hpo.study.killed import killed_at, tree
from tests.studies import run_toy, toy_config

FILE = Path("toy.tar.gz")
# Made again: by SQLite, by the record's guard, and by who runs it.
NOT_KEPT = ("study.db", "study.db.mark", "study.db.backup", "driver.lock")


def own(files):
    return {name: content for name, content in files.items() if name not in NOT_KEPT}


def rows_of(folder):
    with closing(sqlite3.connect(folder.database_path)) as record:
        return [*record.iterdump()]


def test_it_comes_back_with_all_that_is_not_made_again(toy):
    (toy.path / "states/x/empty").mkdir(parents=True)
    (toy.path / "states/x/.hidden").write_bytes(b"\x00")
    (toy.path / "states/latest").symlink_to("x")
    (toy.path / "mirrored.txt").write_text("1 file:///mirror\n")
    write_evaluation(toy, {"time": "once", "study": "toy", "study_id": "1", "trial": 0, "fingerprint": "f"})
    archive(toy, FILE)
    back = unarchive(FILE, Path("other"))
    assert own(tree(back.path)) == own(tree(toy.path))
    assert rows_of(back) == rows_of(toy)
    assert ((back.path / "states/x/empty").is_dir(), (back.path / "states/latest").readlink()) == (True, Path("x"))
    assert back.path.stat().st_mode & 0o777 == 0o700
    assert len(all_evaluations(StudyFolder(Path("other/another")), "f")) == 1
    assert [path.name for path in Path("other").iterdir()] == ["toy"]


@pytest.mark.slow
def test_it_goes_on_there(toy, tmp_path):
    archive(toy, FILE)
    back = unarchive(FILE, Path("other"))
    assert run_toy(back.path, toy_config(trials=5)) == run_toy(tmp_path / "whole", toy_config(trials=5))


def test_what_another_program_has_written_and_sqlite_has_not_put_in_its_place_yet_comes_along(toy):
    with closing(sqlite3.connect(toy.database_path)) as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("CREATE TABLE ours (x)")
        other.commit()
        archive(toy, FILE)
    assert "CREATE TABLE ours (x);" in rows_of(unarchive(FILE, Path("other")))


def rebuilt(change, added=()):
    """Write the archive again, with each member as `change` returns it (None = left out), and with what is added."""
    with tarfile.open(FILE) as before, tarfile.open("changed.tar.gz", "w:gz") as after:
        for member in before:
            content = before.extractfile(member).read() if member.isfile() else b""
            if (changed := change(member, content)) is not None:
                member.size = len(changed)
                after.addfile(member, io.BytesIO(changed))
        for name, kind, target in added:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            after.addfile(member)
    Path("changed.tar.gz").replace(FILE)


def cut(place):
    FILE.write_bytes(FILE.read_bytes()[:place])


def flip(place):
    content = bytearray(FILE.read_bytes())
    content[place] ^= 0xFF
    FILE.write_bytes(content)


def without(name):
    return lambda member, content: None if member.name == name else content


def same(member, content):
    return content


DAMAGES = {
    "empty": lambda: cut(0),
    "cut off": lambda: cut(2000),
    "without its end": lambda: cut(-10),
    "a byte": lambda: flip(3000),
    "a sum": lambda: flip(-6),
    "no archive": lambda: FILE.write_text("a text\n" * 100),
    "without a manifest": lambda: rebuilt(without("manifest.json")),
    "without a file": lambda: rebuilt(without("toy/trials.csv")),
    "without a configuration": lambda: rebuilt(without("toy/config.yaml")),
    "another content": lambda: rebuilt(lambda member, content: content.replace(b"random", b"rAndom")),
    "another name": lambda: rebuilt(lambda member, content: content.replace(b'"name": "toy"', b'"name": "tox"')),
    "a file more": lambda: rebuilt(same, [("toy/more", tarfile.REGTYPE, "")]),
    "a file beside it": lambda: rebuilt(same, [("more", tarfile.REGTYPE, "")]),
    "a path that leads out": lambda: rebuilt(same, [("toy/../../out", tarfile.REGTYPE, "")]),
    "an absolute path": lambda: rebuilt(same, [("/tmp/hpo-out", tarfile.REGTYPE, "")]),
    "a link that leads out": lambda: rebuilt(same, [("toy/out", tarfile.SYMTYPE, "/etc/passwd")]),
    "a hard link that leads out": lambda: rebuilt(same, [("toy/out", tarfile.LNKTYPE, "/etc/passwd")]),
    "a device": lambda: rebuilt(same, [("toy/out", tarfile.CHRTYPE, "")]),
    "a pipe": lambda: rebuilt(same, [("toy/out", tarfile.FIFOTYPE, "")]),
}


@pytest.fixture(scope="module")
def archived(made_toy, tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / FILE
    archive(StudyFolder(made_toy), path)
    return path.read_bytes()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_refused_in_one_line_and_nothing_is_written(archived, damage):
    FILE.write_bytes(archived)
    DAMAGES[damage]()
    with pytest.raises(HpoError) as error:
        unarchive(FILE)
    assert "toy.tar.gz" in str(error.value)
    assert [path.name for path in Path().iterdir()] == ["toy.tar.gz"]
    assert not Path("/tmp/hpo-out").exists()


def test_a_study_that_is_there_is_not_written_over(toy, archived):
    FILE.write_bytes(archived)
    before = tree("runs")
    with pytest.raises(StudyError, match="runs/toy already exists"):
        unarchive(FILE)
    (Path("other")).mkdir()
    (Path("other/toy")).symlink_to("nowhere")
    with pytest.raises(StudyError, match="other/toy already exists"):
        unarchive(FILE, Path("other"))
    assert (tree("runs"), len([*Path("other").iterdir()])) == (before, 1)


def test_a_place_that_an_archive_cannot_have_is_refused(toy):
    FILE.write_text("mine")
    Path("nowhere.tar.gz").symlink_to("target")
    for place, words in (
        (FILE, "already exists"),
        (Path("nowhere.tar.gz"), "already exists"),
        (Path("runs/toy/x.tar.gz"), "inside the study's folder"),
        (Path("none/x.tar.gz"), "there is no directory none"),
    ):
        with pytest.raises(StudyError, match=words):
            archive(toy, place)
    with pytest.raises(ConfigError, match=r"must be a file NAME\.tar\.gz"):
        archive(toy, Path("toy.zip"))
    with pytest.raises(StudyError, match=r"there is no file none\.tar\.gz"):
        unarchive(Path("none.tar.gz"))
    assert FILE.read_text() == "mine"


def test_a_damaged_record_is_not_archived(toy):
    toy.database_path.write_bytes(b"x" * 5000)
    with pytest.raises(StudyError, match=r"record: .*study\.db is damaged"):
        archive(toy, FILE)
    assert [path.name for path in Path().iterdir()] == ["runs"]


def test_one_that_is_killed_leaves_no_part_that_is_taken_for_a_study(toy, archived, monkeypatch):
    with killed_at(monkeypatch, 0):
        archive(toy, FILE)
    assert not FILE.exists()
    FILE.write_bytes(archived)
    with killed_at(monkeypatch, 0):
        unarchive(FILE, Path("other"))
    assert not any(Path("other").glob("*/config.yaml"))
    assert unarchive(FILE, Path("other")).exists
