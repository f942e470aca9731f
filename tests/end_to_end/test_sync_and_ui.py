"""The real commands: what was not tracked is sent to MLflow afterwards, and shown."""

import os
import signal
import time
import urllib.request
from pathlib import Path

from tests.faults.driver import LOCAL, finished, hpo, start
from tests.faults.mlflow_server import free_port


def test_sync_sends_what_was_not_tracked_and_the_ui_shows_it():
    finished("search", "objective=tests.toy:score", *LOCAL, "study.trials=3")
    assert not Path("mlflow.db").exists()
    code, out, err = hpo("sync", "toy")
    assert code == 0, err
    assert "3 trials are in sqlite:///mlflow.db" in out
    port = free_port()
    server = start("ui", "--port", str(port))
    try:
        assert b"MLflow" in _get(f"http://127.0.0.1:{port}/", server)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.communicate(timeout=30)


def _get(url, server):
    for _ in range(120):
        assert server.poll() is None
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read()
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"nothing answered at {url}")
