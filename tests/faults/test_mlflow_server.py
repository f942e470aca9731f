"""The command `mlflow server` is killed and comes back, or does not."""

import sys
import time

import pytest

from tests.faults.eventful import run_with, shown, warnings_in
from tests.faults.mlflow_server import FaultyServer, free_port
from tests.tracked import assert_shows_the_record, synchronise, tracked_study

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


def mlflow_command(port, folder):
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    files = f"{folder}/files"
    return [*command, "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", files]


@pytest.fixture
def real_server(tmp_path, monkeypatch):
    """Return the server of the command `mlflow server`, not yet started."""
    monkeypatch.setenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    folder, port = tmp_path / "server", free_port()
    folder.mkdir()
    server = FaultyServer(folder, port, mlflow_command(port, folder))
    yield server
    server.kill()


@pytest.mark.nightly
def test_the_real_server_is_killed_in_the_middle_and_comes_back(real_server, tmp_path, capfd):
    real_server.start()
    study = tracked_study(tmp_path, trials=12, uri=real_server.uri, patience=60.0)

    def break_it():
        shown(study, 2)
        real_server.kill()

    def mend_it():
        time.sleep(2)
        real_server.start()

    result = run_with(study, {4: break_it, 9: mend_it})
    assert result.is_tracked
    assert warnings_in(capfd) == 1
    assert_shows_the_record(study)


@pytest.mark.nightly
def test_the_real_server_is_killed_at_the_end_and_a_sync_sends_the_rest(real_server, tmp_path, capfd):
    real_server.start()
    study = tracked_study(tmp_path, trials=12, uri=real_server.uri, patience=3.0)

    def break_it():
        shown(study, 2)
        real_server.kill()

    result = run_with(study, {11: break_it})
    assert not result.is_tracked
    assert warnings_in(capfd) == 1
    real_server.start()
    assert synchronise(study)
    assert_shows_the_record(study)
    assert synchronise(study), "again"
    assert_shows_the_record(study)
