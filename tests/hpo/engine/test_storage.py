"""Statements on a SQLite file end, whatever they are, and can be interrupted."""

import os
import signal
import sqlite3
import threading

import optuna
import pytest

from hpo.engine.record import address as storage
from hpo.errors import StudyError
from hpo.integrations.exchange import optuna_storage
from hpo.integrations.exchange.optuna_storage import read_optuna

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"


@pytest.fixture
def cursor():
    connection = sqlite3.connect(":memory:", factory=storage.BoundConnection)
    yield connection.cursor()
    connection.close()


def test_an_endless_statement_is_interrupted_by_a_signal(cursor):
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        cursor.execute(f"{ENDLESS} count(*) FROM n")
    timer.join()


def test_an_endless_statement_ends_by_itself(cursor, monkeypatch):
    monkeypatch.setattr(storage, "_MOST_SECONDS", 0.2)
    with pytest.raises(TimeoutError, match=r"longer than 0\.2 s"):
        cursor.execute(f"{ENDLESS} x FROM n").fetchall()


def test_more_trials_than_can_be_read_are_refused(monkeypatch):
    monkeypatch.setattr(optuna_storage, "_MOST_TRIALS", 2)
    study = optuna.create_study(storage="sqlite:///many.db", study_name="s")
    study.optimize(lambda _: 1.0, n_trials=3)
    with pytest.raises(StudyError, match="has 3 trials; at most 2 are read"):
        read_optuna("sqlite:///many.db", None)


@pytest.mark.parametrize("name", ["it's", "a{b}", "x${y}", "q?m", "p%41", "h#h", "sp ace"])
def test_a_file_in_a_folder_of_any_name(tmp_path, name):
    path = tmp_path / name / "study.db"
    path.parent.mkdir()
    url = storage.sqlite_url(path)
    assert storage.sqlite_path(url) == path
    storage.open_storage(url, "here").remove_session()
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["study.db"]
    assert path.exists()
