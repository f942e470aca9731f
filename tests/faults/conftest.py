"""Fixtures of the tests that break things."""

import pytest

from tests.faults.driver import undisturbed_rows


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    return undisturbed_rows(tmp_path_factory.mktemp("undisturbed"))
