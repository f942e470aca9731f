"""A record that is looked at: the trials of Optuna's own reading, each time what is new, and without a trace."""

import shutil

import pytest

from hpo.study.opening import read_study
from hpo.trials.record.read_only import ReadOnlyRows
from hpo.trials.record.record import Record
from hpo.trials.trial import Outcome, Proposal
from tests.hpo.trials.test_record import POINT, SPACE, make, reopened, stored
from tests.studies import SPACES, prepared, run_toy, toy_config


def read_only_connection(folder, num_folds=1, is_written=lambda: False):
    study = stored("", "s", num_folds)
    return Record(ReadOnlyRows(folder / "study.db", "s", SPACE, is_written), study.goal, study.layout)


def traces(folder):
    """Return the files of a folder with all of their content."""
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


@pytest.mark.parametrize("space", ["continuous", "conditional", "structured"])
def test_the_record_of_a_search_is_the_same(tmp_path, space):
    config = toy_config("random", SPACES[space], 8)
    run_toy(tmp_path / "toy", config)
    study = prepared(tmp_path / "toy", config)
    before = traces(tmp_path / "toy")
    rows = ReadOnlyRows(study.folder.database_path, "toy", study.space)
    seen = Record(rows, study.goal, study.layout)
    assert traces(tmp_path / "toy") == before
    record = read_study(study)
    assert seen.trials() == record.trials()
    assert (seen.stretches, seen.ended) == (record.stretches, record.ended)
    record.close()


def test_each_look_takes_in_what_was_written_since(tmp_path):
    record = make(tmp_path, num_folds=2)
    seen = read_only_connection(tmp_path, 2, is_written=lambda: True)
    assert (seen.trials(), seen.read_again()) == ([], False)

    def agrees():
        assert seen.read_again()
        assert seen.trials() == record.trials()
        assert not seen.read_again() or any(trial.state == "running" for trial in record.trials())

    for index in (0, 1):
        number = record.open_trial(0, Proposal({**POINT, "width": 8 + index})).number
        agrees()
        record.add_outcome(number, 0, Outcome({"score": 0.25}, curve=[]))
        agrees()
    for number in (1, 0):
        record.add_outcome(number, 1, Outcome({"score": 0.5}, curve=[{"epoch": 1, "score": 0.5}]))
        agrees()
    record.note("what", {"ever": 1})
    seen.read_again()
    assert seen.read_note("what") == {"ever": 1}
    record.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.db"]


def test_a_killed_search_s_log_is_read_and_stays(tmp_path):
    (tmp_path / "live").mkdir()
    (tmp_path / "killed").mkdir()
    record = make(tmp_path / "live")
    record.add_outcome(record.open_trial(0, Proposal(POINT)).number, 0, Outcome({"score": 0.25}))
    for path in (tmp_path / "live").iterdir():
        shutil.copyfile(path, tmp_path / "killed" / path.name)
    record.close()
    before = {path.name: path.stat().st_size for path in (tmp_path / "killed").iterdir()}
    assert "study.db-wal" in before
    seen = read_only_connection(tmp_path / "killed")
    assert {path.name: path.stat().st_size for path in (tmp_path / "killed").iterdir()} == before
    assert [trial.score for trial in seen.trials()] == [0.25]
    assert seen.trials() == reopened(tmp_path / "killed").trials()
