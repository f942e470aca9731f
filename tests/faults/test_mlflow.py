"""MLflow answers with errors, late or never, or is killed: the search does not wait for it, and everything arrives.

These tests are nightly, because MLflow's own waits take most of a minute each. Among the slow tests are
`tests/contracts/test_tracker_process.py::test_the_study_goes_on_when_mlflow_cannot_be_written` and
`tests/hpo/study/test_score_in_mlflow.py`.
"""

import sqlite3
import time

import pytest
from mlflow import MlflowClient
from mlflow.entities import ViewType

from tests.faults.eventful import Eventful, run_with, shown, warnings_in
from tests.faults.mlflow_server import FaultyServer, free_port
from tests.tracked import assert_shows_the_record, new_store, run, synchronise, tracked_study

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = FaultyServer(tmp_path_factory.mktemp("server"), free_port())
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize("fault", ["error", "hang", "killed"])
def test_a_server_that_fails_costs_one_warning_and_a_sync_sends_the_rest_once(server, tmp_path, capfd, fault):
    study = tracked_study(tmp_path, trials=12, uri=server.uri, experiment=fault, patience=3.0)

    def break_it():
        shown(study, 3)
        if fault == "killed":
            server.kill()
        else:
            server.set_mode(fault)

    began = time.monotonic()
    result = run_with(study, {5: break_it, 9: lambda: time.sleep(12 if fault == "hang" else 0)})
    assert not result.is_tracked
    assert time.monotonic() - began < 90
    assert warnings_in(capfd) == 1
    if fault == "killed":
        server.start()
    server.set_mode("pass")
    for _ in range(2):
        assert synchronise(study)
        assert_shows_the_record(study)
    assert warnings_in(capfd) == 0


def test_a_server_that_is_killed_and_comes_back_gets_everything(server, tmp_path, capfd):
    study = tracked_study(tmp_path, trials=12, uri=server.uri, experiment="back", patience=60.0)

    def break_it():
        shown(study, 2)
        server.kill()

    assert run_with(study, {4: break_it, 9: server.start}).is_tracked
    assert warnings_in(capfd) == 1
    assert_shows_the_record(study)


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

    assert run_with(study, {4: lock_it, 11: release_it}).is_tracked
    assert warnings_in(capfd) == 1
    assert_shows_the_record(study)


def test_a_run_that_is_created_after_nobody_waits_for_it_is_not_created_twice(server, tmp_path, monkeypatch):
    """A request that timed out is carried out all the same: of the runs that it leaves there is one at the end."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    study = tracked_study(tmp_path, trials=6, uri=server.uri, experiment="twice", patience=20.0)

    def break_it():
        shown(study, 1)
        server.set_mode("late 5 runs/create")

    def deleted():
        client = MlflowClient(study.config.track.uri)
        experiment = client.get_experiment_by_name("twice").experiment_id
        return client.search_runs([experiment], run_view_type=ViewType.DELETED_ONLY).to_list()

    result = run_with(study, {3: break_it, 5: lambda: time.sleep(8)})
    server.set_mode("pass")
    assert result.is_tracked or synchronise(study)
    time.sleep(6)
    before = deleted()
    assert synchronise(study)
    assert deleted() or before, "the fault made second runs"
    assert_shows_the_record(study)


def test_a_server_that_answers_after_fifteen_seconds_costs_less_than_a_twentieth_of_the_training(
    server, tmp_path, capfd
):
    """All that the driver does next to training counts: ten trials of a second, with ten points of a curve each."""
    server.set_mode("late 15")
    changes = {"trials": 10, "objective": "toy_faults:trains_a_second"}
    study = tracked_study(tmp_path, uri=server.uri, experiment="late", patience=20.0, **changes)
    dispatcher = Eventful({})
    result = run(study, dispatcher)
    assert not result.is_tracked
    assert warnings_in(capfd) == 1
    assert dispatcher.training_seconds > 9.0
    assert dispatcher.driver_seconds < dispatcher.training_seconds / 20
    server.set_mode("pass")
    assert synchronise(study)
    # What was sent before is carried out by now, too.
    time.sleep(18)
    assert synchronise(study)
    assert_shows_the_record(study)
