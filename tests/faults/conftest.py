"""Fixtures of the tests that break things."""

import pytest

from tests.faults.driver import undisturbed_rows


@pytest.fixture
def short_waits(monkeypatch):
    """What a user waits for at the end of a study with a broken MLflow, and between tries, in short."""
    monkeypatch.setattr("hpo.session.session._PATIENCE_SECONDS", 3.0)
    monkeypatch.setattr("hpo.track.tracker._RETRY_SECONDS", 0.5)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The rows of the driver's study when nothing happens to it."""
    return undisturbed_rows(tmp_path_factory.mktemp("undisturbed"))
