"""A damaged, missing or old record is replaced by its backup, or refused by name; other damaged files are named."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hpo.errors import StudyError
from hpo.study.opening import open_study, read_study
from hpo.trials.record.own_file import DamagedRecordError, MovedRecordError, backup_path, mark_path
from tests.hpo.cli.commands import hpo, refused
from tests.studies import prepared, refuses, run_toy, shipped, toy_config

FEW, ALL = 7, 15


def config(trials):
    return toy_config(shipped("evolutionary"), trials=trials)


@pytest.fixture(scope="module")
def half_way(tmp_path_factory):
    """The folders of two half-finished studies of the same name, and files of the first when it had three trials."""
    folder = tmp_path_factory.mktemp("half_way")
    run_toy(folder / "study", config(3))
    (folder / "older").mkdir()
    for name in ("study.db", "study.db.backup"):
        shutil.copy(folder / "study" / name, folder / "older")
    for name in ("study", "other"):
        run_toy(folder / name, config(FEW))
    return folder


@pytest.fixture
def begun(half_way, tmp_path):
    shutil.copytree(half_way / "study", tmp_path / "study")
    return tmp_path / "study" / "study.db"


TABLES = ("trials", "trial_user_attributes", "trial_params", "trial_values")
STATEMENTS = {
    "a trial deleted": [f"DELETE FROM {table} WHERE trial_id = 2" for table in TABLES],
    "the last trial deleted": [f"DELETE FROM {t} WHERE trial_id = (SELECT max(trial_id) FROM {t})" for t in TABLES],
    "no trials": ["DROP TABLE trials"],
}


def damage(database, how):
    content = database.read_bytes()
    half = len(content) // 2
    zeroed = {"tail zeroed": content[:half] + bytes(half), "head zeroed": bytes(512) + content[512:]}
    if how in STATEMENTS:
        with closing(sqlite3.connect(database)) as connection, connection:
            for statement in STATEMENTS[how]:
                connection.execute(statement)
    elif how == "deleted":
        database.unlink()
    else:
        database.write_bytes({"truncated": content[:half], "emptied": b"", **zeroed}[how])


@pytest.mark.quick("emptied", "a trial deleted")
@pytest.mark.slow
@pytest.mark.nightly("* zeroed", "no trials")
@pytest.mark.parametrize("how", [
    "truncated", "tail zeroed", "head zeroed", "emptied", "deleted", "a trial deleted", "no trials"
])  # fmt: skip
def test_its_backup_replaces_it_and_readers_or_a_study_without_backup_refuse_it(undisturbed, begun, how, caplog):
    damage(begun, how)
    with pytest.raises(DamagedRecordError, match=r"study\.db.*`hpo resume .*` restores the record from its backup"):
        read_study(prepared(begun.parent, config(FEW)))
    there = begun.read_bytes() if begun.exists() else None
    backup_path(begun).rename(begun.parent / "aside")
    refuses(StudyError, r"study\.db.*has no sound backup", run_toy, begun.parent, config(ALL))
    assert (begun.read_bytes() if begun.exists() else None) == there
    (begun.parent / "aside").rename(backup_path(begun))
    assert run_toy(begun.parent, config(ALL)) == undisturbed
    assert "the backup has replaced the file" in caplog.text
    assert how == "deleted" or begun.with_name("study.db.damaged-1").exists()


def test_readers_notice_that_the_last_trial_is_missing(begun):
    damage(begun, "the last trial deleted")
    with pytest.raises(DamagedRecordError, match=r"has only \d+ of \d+ rows: it is an older copy of the record"):
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


def test_a_record_that_is_moved_while_it_is_open_refuses_the_next_row(begun):
    record = open_study(prepared(begun.parent, config(ALL)))
    begun.parent.rename(begun.parent.with_name("moved"))
    refuses(MovedRecordError, "move its folder back", record.note, "any", 1)
    refuses(MovedRecordError, "move its folder back", record.close)


@pytest.mark.slow
@pytest.mark.parametrize(("older", "words"), [
    (["study.db"], "is an older copy"), (["study.db", "study.db.backup"], "tasks without outcomes run again"),
    (["study.db.backup"], "")
], ids=["the record", "both", "the backup of a damaged record"])  # fmt: skip
def test_an_older_record_or_backup_is_noticed_and_the_trials_are_the_same(
    undisturbed, begun, half_way, caplog, older, words
):
    for name in older:
        shutil.copy(half_way / "older" / name, begun.parent)
    if "study.db" not in older:
        damage(begun, "truncated")
    assert run_toy(begun.parent, config(ALL)) == undisturbed
    assert words in caplog.text


def test_another_studys_record_or_backup_is_refused_even_under_the_same_name(begun, half_way):
    own = begun.read_bytes()
    shutil.copyfile(half_way / "other" / "study.db", begun)
    refuses(StudyError, r"study\.db .*another study", run_toy, begun.parent, config(ALL))
    begun.write_bytes(own)
    damage(begun, "truncated")
    shutil.copyfile(backup_path(half_way / "other" / "study.db"), backup_path(begun))
    refuses(StudyError, "has no sound backup", run_toy, begun.parent, config(ALL))
    damage(backup_path(begun), "truncated")
    refuses(StudyError, "has no sound backup", run_toy, begun.parent, config(ALL))


def test_a_sound_record_is_left_alone_with_or_without_its_mark(undisturbed, begun, caplog):
    mark_path(begun).unlink()
    assert run_toy(begun.parent, config(ALL)) == undisturbed
    assert not caplog.text
    assert {path.name for path in begun.parent.glob("study.db*")} == {*("study.db", "study.db.backup", "study.db.mark")}


def test_nothing_is_evaluated_or_trained_for_a_report_that_could_not_be_written(capsys, study):
    for content in ("{}", "[]", '{"python": "3.11"}'):
        (study / "environment.json").write_text(content)
        assert "environment.json" in refused(capsys, "test", "made")
    assert not (study / "test.json").exists()
    assert not Path("runs/test_evaluations.jsonl").exists()
    before = (study / "study.db").read_bytes()
    (study / "environment.json").unlink()
    assert "environment.json: is missing" in refused(capsys, "resume", "made", "study.trials=3")
    assert (study / "study.db").read_bytes() == before


@pytest.mark.slow
def test_an_evaluation_that_the_test_log_has_lost_is_remembered(capsys, study):
    assert hpo(capsys, "test", "made", "--no-default")[0] == 0
    Path("runs/test_evaluations.jsonl").unlink()
    assert "was used before" in refused(capsys, "test", "made")
    assert hpo(capsys, "test", "made", "--no-default", "--again")[0] == 0
    assert json.loads((study / "test.json").read_text())["evaluations_of_these_data"] == 2


@pytest.mark.parametrize(("make", "name"), [
    (os.mkdir, "report.json"), (os.mkfifo, "trials.csv"), (os.mkdir, "study.db.mark"), (os.mkfifo, "driver.lock")
])  # fmt: skip
def test_a_folder_or_pipe_in_the_place_of_a_file_is_named_and_never_waited_for(capsys, study, make, name):
    (study / name).unlink(missing_ok=True)
    make(study / name)
    code, _, err = hpo(capsys, "resume", "made", "study.trials=2", "report.figures=false")
    is_named = (code in (1, 2), err.count("\n"), str(study / name) in err) == (True, 1, True)
    assert is_named if name != "trials.csv" else (code, (study / name).is_file()) == (0, True), "a new one replaces it"
