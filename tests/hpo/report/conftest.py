"""What the study in a test file's own `folder` has written."""

import json

import pandas as pd
import pytest


@pytest.fixture
def report(folder):
    return json.loads((folder / "report.json").read_text())


@pytest.fixture
def trials(folder):
    return pd.read_csv(folder / "trials.csv")
