"""Trials that another program writes into a record: left alone and reported; what it queues is tried."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState, create_trial

from hpo.errors import StudyError
from hpo.trials.goal import Goal
from hpo.trials.record.optuna_tables import Tables
from hpo.trials.record.own_file import DamagedRecordError, backup_path
from hpo.trials.record.storage import Stored, continue_record, create_record, read_record, sqlite_url
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Proposal, TaskLayout
from tests.hpo.cli.commands import refused
from tests.studies import refuses, run_toy, toy_config

pytestmark = pytest.mark.slow

SPACE = space_from_dict({"layers": [1, 2, 3]})


@pytest.fixture
def study(tmp_path):
    url, goal = sqlite_url(tmp_path / "study.db"), Goal({"score": "maximize"})
    return Stored(url, "s", SPACE, goal, TaskLayout(), lambda _: None, is_own=True)


@pytest.fixture(params=["tables", "public calls"])
def way(request, monkeypatch):
    if request.param == "public calls":
        monkeypatch.setattr(Tables, "reflected", lambda *_: None)


def in_optuna(study):
    return optuna.load_study(study_name=study.name, storage=study.url)


def opened(record, layers, score=None):
    trial = record.open_trial(0, Proposal({"layers": layers}))
    return trial if score is None else record.add_outcome(trial.number, 0, Outcome({"score": score}, []))


def created(study, *scores):
    record = create_record(study)
    record.note("id", f"of {study.name}")
    for layers, score in enumerate(scores, 1):
        opened(record, layers, score)
    return record


@pytest.mark.usefixtures("way")
def test_trials_between_ours_while_we_run_change_none_of_ours(study, tmp_path, caplog):
    created(other := replace(study, url=sqlite_url(tmp_path / "other.db"), name="other"), 9.0).close()
    record = created(study, 0.5)
    in_optuna(study).ask()
    opened(record, 2)
    in_optuna(study).enqueue_trial({"layers": 3})
    in_optuna(study).add_trial(create_trial(value=9.0))
    in_optuna(study).add_trials([in_optuna(study).trials[0], in_optuna(other).trials[0]])
    opened(record, 3, 0.7)
    record.add_outcome(1, 0, Outcome({"score": 0.6}, []))
    unfinished, before = opened(record, 1), record.trials()
    assert [(trial.number, trial.score) for trial in before] == [(0, 0.5), (1, 0.6), (2, 0.7), (3, None)]
    assert read_record(study).trials() == before
    record.close()
    assert caplog.text.count("(Optuna's numbers: 1, 4, 5, 6)") == 2, "by who reads it, and by who wrote it"
    record = continue_record(study)
    assert (record.trials(), record.queued(), record.queued()) == (before, [(3, {"layers": 3})], [])
    record.add_outcome(unfinished.number, 0, Outcome({"score": 0.8}))
    assert opened(record, 2).number == len(before)
    record.close()
    there = in_optuna(study).trials
    assert [trial.number for trial in there] == list(range(10))
    assert [trial.values for trial in there] == [[0.5], None, [0.6], None, [9.0], [0.5], [9.0], [0.7], [0.8], None]
    assert (there[1].state, there[3].state) == (TrialState.RUNNING, TrialState.WAITING)


@pytest.mark.parametrize("values", [[123.0], None])
def test_a_result_that_another_program_writes_of_our_running_trial_is_replaced_by_its_own(study, values, caplog):
    record = created(study, 0.5)
    for layers in (2, 3):
        in_optuna(study).tell(opened(record, layers).number, values, TrialState.FAIL if values is None else None)
    assert read_record(study).trials() == record.trials()
    record.add_outcome(1, 0, Outcome({"score": 0.6}))
    assert ("wrote a result of trial 1; the search replaced it" in caplog.text) == (values is not None)
    record.close()
    record = continue_record(study)
    assert [trial.score for trial in record.trials()] == [0.5, 0.6, None]
    record.add_outcome(2, 0, Outcome({"score": 0.7}))
    record.close()
    assert [trial.values for trial in in_optuna(study).trials] == [[0.5], [0.6], [0.7]]


def test_the_record_of_a_study_is_not_imported_and_what_to_do_is_said(capsys):
    run_toy(Path("runs/toy"), toy_config("random", trials=5))
    for name in ("toy", "other"):
        line = refused(capsys, "import", name, "--optuna", sqlite_url(Path("runs/toy/study.db")))
        assert "runs/toy/study.db is the record of the study runs/toy" in line
        assert ("`hpo resume runs/toy`" in line, "study.imports=runs/toy" in line) == (True, True)


@pytest.fixture
def continued(study, tmp_path):
    """Return a record that goes on, its file, and its backup of before."""
    created(study, 0.1, 0.2).close()
    record = continue_record(study)
    opened(record, 3, 0.3)
    return record, tmp_path / "study.db", backup_path(tmp_path / "study.db").read_bytes()


def test_a_record_that_has_lost_a_trial_replaces_no_backup(continued, study, caplog):
    record, path, backup = continued
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("trials", "trial_user_attributes", "trial_values", "trial_params"):
            connection.execute(f"DELETE FROM {table} WHERE trial_id = 2")
    record.close()
    assert "study.db is incomplete: trial 1 of 3 is missing" in caplog.text
    assert backup_path(path).read_bytes() == backup
    refuses(DamagedRecordError, r"study\.db is incomplete: trial 1 of 3 is missing", read_record, study)
    assert [trial.score for trial in continue_record(study).trials()] == [0.1, 0.2]


def test_a_study_that_is_deleted_under_the_search_is_named_in_one_line_and_keeps_its_backup(continued, study, caplog):
    record, path, backup = continued
    optuna.delete_study(study_name=study.name, storage=study.url)
    refuses(StudyError, r"another program has changed or deleted the study in .*study\.db", record.note, "ended", {})
    record.close()
    assert backup_path(path).read_bytes() == backup
    assert "cannot be backed up" in caplog.text
