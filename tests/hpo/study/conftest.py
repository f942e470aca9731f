"""A study of the toy objective, made once a process, for tests that copy it."""

import contextlib
import shutil
from pathlib import Path

import pytest

from tests.studies import StudyFolder, run_toy, toy_config


@pytest.fixture(scope="session")
def made_toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    with contextlib.chdir(folder):
        run_toy(folder / "runs/toy", toy_config(trials=2))
    return folder / "runs/toy"


@pytest.fixture
def toy(made_toy):
    shutil.copytree(made_toy, "runs/toy")
    return StudyFolder(Path("runs/toy"))
