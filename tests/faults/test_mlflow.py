"""MLflow answers with errors, late or never: the search does not wait for it, warns once, and everything arrives later.

One runs with the slow tests; `python -m pytest -m nightly tests/faults/test_mlflow.py` has the server hang and answer
late, and locks its database for 40 seconds.
"""

import sqlite3
import time

import pytest
from mlflow import MlflowClient
from mlflow.entities import ViewType

from tests.faults.eventful import Eventful, run_with, shown, warnings_in
from tests.faults.mlflow_server import FaultyServer, free_port
from tests.tracked import assert_shows_the_record, new_store, run, synchronise, tracked_study

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = FaultyServer(tmp_path_factory.mktemp("server"), free_port())
    server.start()
    yield server
    server.kill()


@pytest.mark.nightly
def test_a_server_that_answers_with_errors(server, tmp_path, capfd):
    study = tracked_study(tmp_path, trials=12, uri=server.uri, experiment="errors", patience=3.0)

    def break_it():
        shown(study, 3)
        server.set_mode("error")

    result = run_with(study, {5: break_it})
    assert not result.is_tracked
    assert warnings_in(capfd) == 1
    server.set_mode("pass")
    assert synchronise(study)
    assert warnings_in(capfd) == 0
    assert_shows_the_record(study)


@pytest.mark.nightly
def test_a_database_that_is_locked_for_long_gets_everything_afterwards(tmp_path, capfd):
    new_store(tmp_path)
    study = tracked_study(tmp_path, trials=12, patience=180.0)
    database = sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None, timeout=60)

    def lock_it():
        shown(study, 2)
        database.execute("BEGIN EXCLUSIVE")

    def release_it():
        time.sleep(40)  # MLflow itself waits 20 s for a lock before it is an error.
        database.close()

    result = run_with(study, {4: lock_it, 11: release_it})
    assert result.is_tracked
    assert warnings_in(capfd) == 1
    assert_shows_the_record(study)


@pytest.mark.nightly
def test_a_server_that_hangs(server, tmp_path, capfd):
    study = tracked_study(tmp_path, trials=12, uri=server.uri, experiment="hangs", patience=3.0)

    def break_it():
        shown(study, 3)
        server.set_mode("hang")

    began = time.monotonic()
    result = run_with(study, {5: break_it, 9: lambda: time.sleep(12)})
    assert not result.is_tracked
    assert time.monotonic() - began < 90
    assert warnings_in(capfd) == 1
    server.set_mode("pass")
    assert synchronise(study)
    assert_shows_the_record(study)


@pytest.mark.nightly
def test_a_run_that_is_made_after_nobody_waits_for_it_is_not_made_twice(server, tmp_path, monkeypatch):
    """A request that timed out is carried out all the same: of the runs that it leaves there is one at the end."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    study = tracked_study(tmp_path, trials=6, uri=server.uri, experiment="twice", patience=20.0)

    def break_it():
        shown(study, 1)
        server.set_mode("late 5 runs/create")

    result = run_with(study, {3: break_it, 5: lambda: time.sleep(8)})
    server.set_mode("pass")
    assert result.is_tracked or synchronise(study)
    time.sleep(6)
    deleted = _deleted_runs(study)
    assert synchronise(study)
    assert _deleted_runs(study) or deleted, "the fault made second runs"
    assert_shows_the_record(study)


def _deleted_runs(study):
    client = MlflowClient(study.config.track.uri)
    experiment = client.get_experiment_by_name(study.config.track.experiment).experiment_id
    return client.search_runs([experiment], run_view_type=ViewType.DELETED_ONLY).to_list()


@pytest.mark.nightly
def test_a_server_that_answers_after_fifteen_seconds_costs_less_than_a_twentieth_of_the_training(
    server, tmp_path, capfd
):
    """All that the driver does beside training counts: ten trials of a second, with ten points of a curve each."""
    server.set_mode("late 15")
    study = tracked_study(
        tmp_path,
        uri=server.uri,
        experiment="late",
        patience=20.0,
        trials=10,
        objective="tests.faults.objectives:trains_a_second",
    )
    dispatcher = Eventful({})
    result = run(study, dispatcher)
    assert not result.is_tracked
    assert warnings_in(capfd) == 1
    assert dispatcher.training_seconds > 9.0
    assert dispatcher.driver_seconds < dispatcher.training_seconds / 20
    server.set_mode("pass")
    assert synchronise(study)
    # What was asked before is carried out by now, too.
    time.sleep(18)
    assert synchronise(study)
    assert_shows_the_record(study)
