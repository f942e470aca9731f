"""A finished study that tests may spoil: made once a process, copied for each."""

import contextlib
import io
import shutil
from pathlib import Path

import pytest

from hpo.cli.main import main
from tests.hpo.cli.commands import QUICK


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Return a folder with `runs/made`, a study of the digits."""
    folder = tmp_path_factory.mktemp("finished")
    said = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(["search", *QUICK, "study.name=made", "study.trials=1", "split.folds=1"])
    assert code == 0, said.getvalue()
    return folder


@pytest.fixture
def study(finished):
    """Put a copy of the study into the working directory and return its folder, `runs/made`."""
    shutil.copytree(finished / "runs", "runs")
    return Path("runs/made")
