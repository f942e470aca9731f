"""What every test runs under: a working directory of its own, and no way out of this machine."""

import contextlib
import fnmatch
import functools
import gc
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

import alembic.util
import pytest
from hypothesis import settings

from tests.guard import sitecustomize

# Each process of the tests has its own; those that it starts write into it, too.
NETWORK_LOG = Path(tempfile.mkdtemp(prefix="hpo-tests-")) / "network"
os.environ[sitecustomize.LOG] = str(NETWORK_LOG)
GUARD = Path(sitecustomize.__file__).parent
# For processes that tests start, as tests/__init__.py has it for the tests themselves.
entries = [str(GUARD), str(GUARD.with_name("objectives")), *filter(None, [os.environ.get("PYTHONPATH")])]
if entries[0] not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(entries)
# Ray's switch for whether it is reached from other machines. Its processes talk in C++, past the guard.
os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
# Where it is remembered which studies were made here.
os.environ["XDG_STATE_HOME"] = str(NETWORK_LOG.parent)
# Where searches see each other: those of other processes of the tests are none of ours.
os.environ["HPO_SEARCHES_DIR"] = str(NETWORK_LOG.parent)
# Tests look into MLflow themselves; our own processes say it to it anyway.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

# Optuna has Alembic import its ten migrations twice for each new storage, which is half of what a storage costs.
alembic.util.load_python_file = functools.cache(alembic.util.load_python_file)

# A process of the tests holds torch, MLflow, Ray and hundreds of test modules. To search all of them for cycles takes
# 0.2 s, and with the usual thresholds an eighth of the tests' time.
gc.set_threshold(10_000, 10, 1_000)

# Machines that run tests are busy, and how long an example takes says nothing about what it shows.
# The same examples each time, so that a failure is that of a change.
settings.register_profile("quick", deadline=None, derandomize=True)
settings.load_profile("quick")

# When a test runs: by default, with `-m slow`, or with `-m nightly`.
TIERS = ("quick", "slow", "nightly")
TENTHS = 10


def pytest_addoption(parser):
    """Add `--tenth`, with which `.ci/run` runs a part of the nightly tests."""
    text = "run of the nightly tests only every tenth, from this one on: 0 to 9"
    parser.addoption("--tenth", type=int, choices=range(TENTHS), help=text)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Give every case of a test its tier, and make every warning inside a test an error unless the test says otherwise.

    Here and not by `filterwarnings` in pyproject.toml, which holds for pytest and its plugins as well.
    """
    for item in items:
        _keep_one_tier(item)
        item.add_marker(pytest.mark.filterwarnings("error"), append=False)
    _keep_one_tenth(config, items)


def _keep_one_tenth(config, items):
    """Deselect the nightly tests of the other tenths. A tenth has cases of every file, so that all take as long."""
    tenth = config.getoption("--tenth")
    if tenth is not None:
        nightly = [item for item in items if item.get_closest_marker("nightly")]
        left_out = {*nightly} - {*nightly[tenth::TENTHS]}
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _keep_one_tier(item):
    """Leave a test the mark that names its case, `@pytest.mark.quick("grid")`, or else the one that names none."""
    marks = [mark for mark in item.own_markers if mark.name in TIERS]
    if not marks:
        return
    case = item.callspec.id if hasattr(item, "callspec") else ""
    named = [mark for mark in marks if any(fnmatch.fnmatchcase(case, pattern) for pattern in mark.args)]
    others = [mark for mark in marks if not mark.args]
    tier = max(named or others, key=lambda mark: TIERS.index(mark.name), default=None)
    item.own_markers = [mark for mark in item.own_markers if mark.name not in TIERS or mark is tier]


@pytest.fixture(autouse=True)
def _no_store_of_another_test():
    """MLflow writes the address that a test gives it into the environment, which new studies follow."""
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    yield
    os.environ.pop("MLFLOW_TRACKING_URI", None)


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    """Run the test in an empty directory, so that `runs/` and `mlflow.db` are its own, and forget it afterwards.

    A search puts its directory on `sys.path`. With 128 of them Python forgets which packages are installed, and each
    look at a version lists all of site-packages.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture(autouse=True)
def no_way_out():
    """Fail the test that tried to leave this machine, itself or by a process that it started."""
    NETWORK_LOG.unlink(missing_ok=True)
    yield
    assert not NETWORK_LOG.exists() or NETWORK_LOG.read_text().splitlines() == []


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Return a folder with `runs/made`, a finished study of the digits: made once a process, for tests that copy it."""
    from hpo.cli.main import main
    from tests.hpo.cli.commands import QUICK

    folder = tmp_path_factory.mktemp("finished")
    said = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(["search", *QUICK, "study.name=made", "study.trials=1", "split.folds=1"])
    assert code == 0, said.getvalue()
    return folder


@pytest.fixture
def study(finished):
    """Put a copy of the finished study into the working directory and return its folder, `runs/made`."""
    shutil.copytree(finished / "runs", "runs")
    return Path("runs/made")
