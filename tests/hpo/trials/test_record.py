"""The record: what Optuna reads of it, that nothing is written twice, and how it is read without a trace."""

import shutil
import sqlite3
from contextlib import closing

import optuna
import pytest
from optuna.trial import TrialState, create_trial

from hpo.errors import StudyError
from hpo.trials.goal import Goal, Limit
from hpo.trials.record import optuna_tables
from hpo.trials.record.own_file import refuse_damaged_file
from hpo.trials.record.read_only import ReadOnlyRows
from hpo.trials.record.record import FIRST, LAST, Record
from hpo.trials.record.storage import Stored, continue_record, copy_renamed, create_record, read_record, sqlite_url
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Proposal, TaskLayout
from tests.studies import refuses, run_toy, toy_config

TREE = {"layers": [1, 2, 3], "kind": {"choices": ["a", "b", None, True]}, "lr": {"low": 1e-5, "high": 1.0, "log": True}}
SPACE = space_from_dict(TREE | {"width": {"low": 2, "high": 64, "integer": True}})
POINT = {"layers": 2, "kind": None, "lr": 0.1 + 0.2, "width": 7}


def stored(url, name="one", num_folds=1):
    return Stored(url, name, SPACE, Goal({"score": "maximize"}), TaskLayout(num_folds), lambda _: None)


def make(folder, num_folds=1, name="s"):
    return create_record(stored(sqlite_url(folder / "study.db"), name, num_folds))


def reopened(folder, num_folds=1, name="s"):
    return read_record(stored(sqlite_url(folder / "study.db"), name, num_folds))


def test_optuna_reads_our_rows_as_it_reads_its_own(tmp_path):
    record = make(tmp_path)
    for score in (0.25, None):
        trial = record.open_trial(0, Proposal(POINT))
        record.add_outcome(trial.number, 0, Outcome({"score": score}) if score else Outcome(error="no luck"))
    storage = sqlite_url(tmp_path / "study.db")
    ours = optuna.load_study(study_name="s", storage=storage)
    theirs = optuna.create_study(study_name="theirs", storage=storage, direction="maximize")
    first = ours.trials[0]
    theirs.add_trial(create_trial(value=0.25, params=first.params, distributions=first.distributions))
    copy = theirs.trials[0]
    assert (first.params, first.value, first.state) == (POINT, 0.25, TrialState.COMPLETE)
    assert (first.params, first.distributions, first.value) == (copy.params, copy.distributions, copy.value)
    assert (ours.trials[1].state, ours.best_trial.number) == (TrialState.FAIL, 0)


@pytest.mark.parametrize("has_tables", [True, False])
def test_the_best_of_a_record_in_optuna_keeps_the_limits(tmp_path, monkeypatch, has_tables):
    if not has_tables:
        monkeypatch.setattr(optuna_tables.Tables, "reflected", lambda *_: None)
    url, limits = sqlite_url(tmp_path / "study.db"), (Limit("size", 5.0), Limit("size", 1.0, is_least=True))
    goals = {"two": Goal({"score": "maximize", "size": "minimize"}, limits), "one": Goal({"score": "maximize"}, limits)}
    for name, goal in goals.items():
        study = Stored(url, name, SPACE, goal, TaskLayout(), lambda _: None)
        record = create_record(study)
        for number, size in enumerate((0.5, 2.0, 4.0, 6.0, None)):
            record.open_trial(0, Proposal({**POINT, "lr": (size or 9) / 10}))
            record.add_outcome(number, 0, Outcome({"score": size, "size": size}) if size else Outcome(error="no luck"))
        before = [trial.keeps_limits for trial in record.trials()]
        record.close()
        after = [trial.keeps_limits for trial in read_record(study).trials()]
        assert after == before == [False, True, True, False, False]
    two, one = (optuna.load_study(study_name=name, storage=url) for name in goals)
    assert ([trial.number for trial in two.best_trials], one.best_trial.number) == ([1, 2], 2)
    assert [{**two.trials[n].constraints} for n in (0, 4)] == [{"size <= 5": -4.5, "size >= 1": 0.5}, {}]


def test_a_record_that_is_not_there_or_is_damaged_is_refused_by_name(tmp_path):
    make(tmp_path)
    refuses(StudyError, "no study 'other'", reopened, tmp_path, name="other")
    refuses(StudyError, "already holds a study 's'", make, tmp_path)
    with pytest.raises(StudyError, match=r"there is no study 'other' in study\.db"):
        list(ReadOnlyRows(tmp_path / "study.db", "other", SPACE).read())
    (tmp_path / "study.db").write_bytes(b"not a database" * 100)
    refuses(StudyError, r"study\.db", reopened, tmp_path)


def test_what_sqlite_itself_finds_wrong_with_a_file_is_its_damage(tmp_path):
    path = tmp_path / "study.db"
    with closing(sqlite3.connect(path)) as file:
        file.executescript("CREATE TABLE made (x); INSERT INTO made VALUES (NULL); PRAGMA writable_schema = 1")
        file.executescript("UPDATE sqlite_master SET sql = 'CREATE TABLE made (x NOT NULL)'")
    refuses(StudyError, r"study\.db is damaged: NULL value in made\.x", refuse_damaged_file, path)


@pytest.mark.parametrize(("file", "options"), [("team.db", ""), ("team.db", "?timeout=5"), ("study.db", "")])
def test_two_studies_in_one_storage_do_not_mistake_each_others_marks(tmp_path, file, options):
    url = sqlite_url(tmp_path / file) + options
    for name in ("one", "two"):
        with closing(create_record(stored(url, name))) as record:
            record.note("id", name)
    with closing(continue_record(stored(url))) as record:
        assert record.read_note("id") == "one"
    assert [path.name for path in tmp_path.iterdir()] == [file]


def test_a_study_that_was_never_made_whole_gives_its_name_back_and_no_other_does(tmp_path):
    url = sqlite_url(tmp_path / "team.db")
    with closing(create_record(stored(url))) as record:
        record.note(FIRST, [])
    with closing(create_record(stored(url))) as record:
        assert record.read_note(FIRST) is None
        record.note(FIRST, [])
        record.note(LAST, "its own")
    optuna.create_study(storage=url, study_name="somebody's")
    for name in ("one", "somebody's"):
        refuses(StudyError, "holds a study", create_record, stored(url, name))


@pytest.mark.parametrize("has_known_tables", [True, False])
def test_a_copy_has_the_same_trials_under_another_name_and_id(tmp_path, monkeypatch, has_known_tables):
    with closing(make(tmp_path)) as record:
        record.note(LAST, "old")
        record.add_outcome(record.open_trial(0, Proposal(POINT)).number, 0, Outcome({"score": 1 / 7}))
    (tmp_path / "copy").mkdir()
    if not has_known_tables:
        monkeypatch.setattr("hpo.trials.record.storage.rename_study", lambda *_: False)
    copy_renamed(tmp_path / "study.db", tmp_path / "copy/study.db", "s", "named", "new")
    copied = reopened(tmp_path / "copy", name="named")
    assert (copied.read_note(LAST), copied.trials() == reopened(tmp_path).trials() != []) == ("new", True)


def read_only_connection(folder, num_folds=1, is_written=lambda: False):
    study = stored("", "s", num_folds)
    return Record(ReadOnlyRows(folder / "study.db", "s", SPACE, is_written), study.goal, study.layout)


def test_each_reading_takes_in_what_was_written_since(tmp_path):
    record = make(tmp_path, num_folds=2)
    reader = read_only_connection(tmp_path, 2, is_written=lambda: True)
    assert (reader.trials(), reader.read_again()) == ([], False)
    for number in (0, 1):
        record.open_trial(0, Proposal({**POINT, "width": 8 + number}))
        assert (reader.read_again(), reader.trials()) == (True, record.trials())
    for number, index in ((0, 0), (1, 0), (1, 1), (0, 1)):
        record.add_outcome(number, index, Outcome({"score": 0.5}, curve=[{"epoch": 1, "score": 0.5}]))
        assert (reader.read_again(), reader.trials()) == (True, record.trials())
    assert not reader.read_again()
    record.note("what", {"ever": 1})
    reader.read_again()
    assert reader.read_note("what") == {"ever": 1}
    record.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.db"]


def test_a_killed_search_s_log_is_read_and_stays(tmp_path):
    live, killed = tmp_path / "live", tmp_path / "killed"
    live.mkdir()
    record = make(live)
    record.add_outcome(record.open_trial(0, Proposal(POINT)).number, 0, Outcome({"score": 0.25}))
    shutil.copytree(live, killed)
    record.close()
    before = {path.name: path.stat().st_size for path in killed.iterdir()}
    assert "study.db-wal" in before
    reader = read_only_connection(killed)
    assert {path.name: path.stat().st_size for path in killed.iterdir()} == before
    assert ([trial.score for trial in reader.trials()], reader.trials()) == ([0.25], reopened(killed).trials())


@pytest.mark.slow
def test_where_optunas_tables_have_another_form_a_study_has_the_same_trials(tmp_path, monkeypatch):
    expected = run_toy(tmp_path / "tables", toy_config("evolutionary", trials=8))
    monkeypatch.setitem(optuna_tables.COLUMNS, "trials", {"a column of another version"})
    run_toy(tmp_path / "calls", toy_config("evolutionary", trials=7))
    assert run_toy(tmp_path / "calls", toy_config("evolutionary", trials=8)) == expected
    run_toy(tmp_path / "both", toy_config("evolutionary", trials=7))
    monkeypatch.undo()
    assert run_toy(tmp_path / "both", toy_config("evolutionary", trials=8)) == expected


@pytest.mark.parametrize(("scales", "best"), [(0, 0), (3, 1)])
def test_a_key_of_ones_own_that_is_called_as_the_scale_ranks_no_trial(tmp_path, scales, best):
    space, goal = space_from_dict({"study": {"scale": [1, 2, 3]}}), Goal({"score": "maximize"}, target=scales)
    study = Stored(sqlite_url(tmp_path / "study.db"), "s", space, goal, TaskLayout(1), lambda _: None)
    record = create_record(study)
    for scale, score in ((1, 0.9), (3, 0.1)):
        record.add_outcome(record.open_trial(0, Proposal({"study.scale": scale})).number, 0, Outcome({"score": score}))
    for read in (record, read_record(study)):
        assert read.history().best().number == best
        assert [trial.scale for trial in read.trials()] == ([1, 3] if scales else [0, 0])
