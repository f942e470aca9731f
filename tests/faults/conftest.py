"""Fixtures of the tests that break things."""

import pytest

from tests.faults.driver import undisturbed_rows


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The rows of the driver's study when nothing happens to it."""
    return undisturbed_rows(tmp_path_factory.mktemp("undisturbed"))
