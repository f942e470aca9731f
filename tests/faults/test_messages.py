"""Reports that come twice, late, or in any order, and clocks that jump: the record holds each result once."""

import datetime
from collections import deque
from types import SimpleNamespace

import optuna

from hpo.trials.record import optuna_tables
from hpo.trials.record.storage import sqlite_url
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.ray.pool import RayDispatcher, _Run
from hpo.workers.dispatch.transfer import FileTransfer
from hpo.workers.training.tasks import Task
from tests.faults.driver import undisturbed_rows
from tests.studies import dispatch_section


def test_messages_of_an_earlier_try_are_ignored():
    pool = RayDispatcher.__new__(RayDispatcher)
    pool._settings = dispatch_section(retries=2)
    late = {"outcome": Outcome({"score": 1.0}), "call": "the first"}
    now = {"outcome": Outcome({"score": 2.0}), "call": "the second"}
    pool._ray = SimpleNamespace(get=lambda message: message, exceptions=SimpleNamespace(RayError=RuntimeError))
    run = _Run(Task(0, 0, {}), attempt=2, call="the second", stream=iter([late, now]))
    pool._group = SimpleNamespace(idle=deque())
    pool._runs, pool._transfer = {run.stream: run}, FileTransfer(None)
    assert pool._read(run) == []
    assert run.stream in pool._runs
    (report,) = pool._read(run)
    assert (report.outcome.metrics, report.outcome.attempt) == ({"score": 2.0}, 2)


def test_a_clock_that_is_set_back_makes_no_duration_negative(undisturbed, tmp_path, monkeypatch):
    """An hour back between any two looks at it; the trials are the same, in the same order."""
    times = iter(datetime.datetime(2026, 1, 2) - datetime.timedelta(hours=n) for n in range(1000))
    seconds = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(optuna_tables, "current_time", lambda: next(times))
    monkeypatch.setattr("hpo.workers.training.worker.time.time", lambda: float(next(seconds)))
    assert undisturbed_rows(tmp_path / "jumping") == undisturbed
    study = optuna.load_study(study_name="toy", storage=sqlite_url(tmp_path / "jumping" / "study.db"))
    assert all(trial.duration >= datetime.timedelta(0) for trial in study.trials)
    assert all(trial.user_attrs["fold_0"]["seconds"] >= 0 for trial in study.trials)
