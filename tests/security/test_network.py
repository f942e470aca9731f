"""A whole run leaves this machine alone: nothing listens, nothing is connected to, and no library reports home."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hpo.track.store import mlflow_environment
from tests.conftest import NETWORK_LOG
from tests.faults.driver import hpo
from tests.studies import REPOSITORY, refuses
from tests.tracked import new_store

OWN = ("model=none", "data=none", "training=none", "space=none", "+x=1", "+space.x=[1,2]", "split.folds=1")


def test_the_guard_sees_this_process_and_those_it_starts():
    """192.0.2.0/24 is kept for documentation (RFC 5737): nobody is there."""
    refuses(ConnectionRefusedError, r"192\.0\.2\.1", socket.create_connection, ("192.0.2.1", 9), timeout=1)
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.2', 53))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ConnectionRefusedError" in done.stderr
    assert all(address in NETWORK_LOG.read_text() for address in ("192.0.2.1", "192.0.2.2"))
    NETWORK_LOG.unlink()


@pytest.mark.slow
def test_nothing_listens_while_a_study_trains_in_one_process(tmp_path):
    new_store(Path.cwd())
    study = ("study.name=listening", "study.trials=1", f"+folder={tmp_path}", "dispatch=local", "report.figures=false")
    code, _, err = hpo("search", "objective=toy_sockets:run_fold", *OWN, *study)
    assert code == 0, err
    seen = json.loads(Path("listening.json").read_text())
    assert seen["read_only_connection"] > 2
    assert seen["found"] == []
    assert Path("mlartifacts").exists()


def test_no_library_reports_home():
    environment = mlflow_environment()
    assert (environment["MLFLOW_DISABLE_TELEMETRY"], environment["DO_NOT_TRACK"]) == ("true", "true")
    sources = [path.read_text() for folder in ("hpo", "model") for path in (REPOSITORY / folder).rglob("*.py")]
    assert any('"HF_HUB_DISABLE_TELEMETRY", "1"' in source for source in sources)
    for service in ("wandb", "comet_ml", "neptune", "sentry_sdk", "posthog", "urllib.request", "import requests"):
        assert not [source for source in sources if service in source], service
