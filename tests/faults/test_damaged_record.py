"""A record that is damaged, missing, old or another's: made good from its backup, or refused by name; never empty."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from hpo.errors import StudyError
from hpo.study.opening import read_study
from hpo.trials.record.own_file import DamagedRecordError, backup_path, mark_path
from tests.studies import prepared, run_toy, shipped, toy_config

FEW, ALL = 7, 15


def config(trials):
    return toy_config(shipped("evolutionary"), trials=trials)


@pytest.fixture(scope="module")
def half_way(tmp_path_factory):
    """The folders of two studies of the same name that have come half way."""
    folder = tmp_path_factory.mktemp("half_way")
    for name in ("study", "other"):
        run_toy(folder / name, config(FEW))
    return folder


@pytest.fixture
def begun(half_way, tmp_path):
    """The database of one of them, to be damaged."""
    shutil.copytree(half_way / "study", tmp_path / "study")
    return tmp_path / "study" / "study.db"


def truncated(database):
    with database.open("r+b") as file:
        file.truncate(database.stat().st_size // 2)


def emptied(database):
    database.write_bytes(b"")


def tail_zeroed(database):
    content = database.read_bytes()
    half = len(content) // 2
    database.write_bytes(content[:half] + bytes(len(content) - half))


def head_zeroed(database):
    with database.open("r+b") as file:
        file.write(bytes(512))


def trial_deleted(database):
    with closing(sqlite3.connect(database)) as connection, connection:
        for table in ("trials", "trial_user_attributes", "trial_params", "trial_values"):
            connection.execute(f"DELETE FROM {table} WHERE trial_id = 2")


def trials_dropped(database):
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DROP TABLE trials")


def deleted(database):
    database.unlink()


DAMAGES = [truncated, emptied, tail_zeroed, head_zeroed, trial_deleted, trials_dropped, deleted]


@pytest.mark.quick("emptied")
@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_it_is_made_good_from_its_backup_and_refused_by_name_to_readers_or_without_one(
    undisturbed, begun, damage, caplog
):
    damage(begun)
    with pytest.raises(DamagedRecordError, match=r"study\.db.*`hpo resume .*` replaces it by its backup"):
        read_study(prepared(begun.parent, config(FEW)))
    assert not begun.with_name("study.db.damaged-1").exists()
    there = begun.read_bytes() if begun.exists() else None
    backup_path(begun).rename(begun.parent / "aside")
    with pytest.raises(StudyError, match=r"study\.db.*has no sound backup"):
        run_toy(begun.parent, config(ALL))
    assert (begun.read_bytes() if begun.exists() else None) == there
    (begun.parent / "aside").rename(backup_path(begun))
    assert run_toy(begun.parent, config(ALL)) == undisturbed
    warning = caplog.text
    assert str(begun) in warning
    assert "the backup has replaced the file" in warning
    # What was there is kept, for whoever wants to look into it.
    assert damage is deleted or begun.with_name("study.db.damaged-1").exists()


def test_who_only_reads_notices_that_the_last_trial_is_gone(begun):
    """Nothing in the file tells, but its mark."""
    with closing(sqlite3.connect(begun)) as connection, connection:
        for table in ("trials", "trial_user_attributes", "trial_params", "trial_values"):
            connection.execute(f"DELETE FROM {table} WHERE trial_id = (SELECT max(trial_id) FROM {table})")
    with pytest.raises(DamagedRecordError, match=r"is an older copy, or has lost rows: it holds \d+ of \d+"):
        read_study(prepared(begun.parent, config(FEW)))


def test_a_record_that_another_process_holds_is_not_called_damaged(begun, monkeypatch):
    def busy(_rows):
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error

    monkeypatch.setattr("hpo.trials.record.rows.OptunaRows.read", busy)
    with pytest.raises(StudyError, match=r"study\.db is locked by another process") as raised:
        read_study(prepared(begun.parent, config(FEW)))
    assert not isinstance(raised.value, DamagedRecordError)


@pytest.mark.slow
def test_an_older_copy_gives_way_to_the_backup(undisturbed, tmp_path, caplog):
    folder = tmp_path / "study"
    run_toy(folder, config(3))
    shutil.copyfile(folder / "study.db", tmp_path / "older.db")
    run_toy(folder, config(FEW))
    shutil.copyfile(tmp_path / "older.db", folder / "study.db")
    assert run_toy(folder, config(ALL)) == undisturbed
    assert "is an older copy" in caplog.text


@pytest.mark.slow
def test_an_older_copy_with_an_older_backup_is_noticed_and_goes_on(undisturbed, tmp_path, caplog):
    """Both were put back together; what they lack is trained again, and that is said."""
    folder = tmp_path / "study"
    run_toy(folder, config(3))
    older = {name: (folder / name).read_bytes() for name in ("study.db", "study.db.backup")}
    run_toy(folder, config(FEW))
    for name, content in older.items():
        (folder / name).write_bytes(content)
    assert run_toy(folder, config(ALL)) == undisturbed
    assert "so is its backup; missing outcomes are trained again" in caplog.text


@pytest.mark.slow
def test_a_damaged_record_with_an_older_backup_loses_nothing(undisturbed, tmp_path):
    folder = tmp_path / "study"
    run_toy(folder, config(3))
    older = (folder / "study.db.backup").read_bytes()
    run_toy(folder, config(FEW))
    (folder / "study.db.backup").write_bytes(older)
    truncated(folder / "study.db")
    assert run_toy(folder, config(ALL)) == undisturbed


def test_another_studys_record_is_refused_even_under_the_same_name(begun, half_way):
    shutil.copyfile(half_way / "other" / "study.db", begun)
    before = begun.read_bytes()
    with pytest.raises(StudyError, match=r"study\.db is the record of another study"):
        run_toy(begun.parent, config(ALL))
    assert begun.read_bytes() == before


def test_a_backup_that_is_damaged_or_of_another_study_is_not_taken(begun, half_way):
    truncated(begun)
    truncated(backup_path(begun))
    with pytest.raises(StudyError, match="has no sound backup"):
        run_toy(begun.parent, config(ALL))
    shutil.copyfile(backup_path(half_way / "other" / "study.db"), backup_path(begun))
    with pytest.raises(StudyError, match="has no sound backup"):
        run_toy(begun.parent, config(ALL))


def test_a_sound_record_is_left_alone_and_one_without_a_mark_too(undisturbed, begun, caplog):
    mark_path(begun).unlink()
    assert run_toy(begun.parent, config(ALL)) == undisturbed
    assert not caplog.text
    assert sorted(path.name for path in begun.parent.glob("study.db*")) == [
        "study.db",
        "study.db.backup",
        "study.db.mark",
    ]
