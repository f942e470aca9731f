"""What every test runs under: a working directory of its own."""

import pytest


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    """Run the test in an empty directory, so that `runs/` and `mlflow.db` are its own."""
    monkeypatch.chdir(tmp_path)
