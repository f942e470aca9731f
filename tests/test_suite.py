"""The suite itself: what it is strict about, and what it lets other plugins of pytest do."""

import os
import subprocess
import sys
import warnings

import pytest

from tests.conftest import TENTHS, tenth_of
from tests.studies import REPOSITORY

# As pytest-benchmark has it, which warns where xdist is active: outside of every test, on each of its processes.
PLUGIN = """
import warnings
def pytest_configure(config): warnings.warn("configured")
def pytest_sessionstart(session): warnings.warn("started")
def pytest_collection_modifyitems(items): warnings.warn("collected")
def pytest_sessionfinish(session): warnings.warn("finished")
def pytest_terminal_summary(terminalreporter): warnings.warn("told")
"""


@pytest.mark.nightly
def test_a_plugin_that_warns_ends_no_run(tmp_path):
    (tmp_path / "noisy.py").write_text(PLUGIN)
    path = os.pathsep.join((str(tmp_path), os.environ["PYTHONPATH"]))
    one = "tests/test_suite.py::test_a_warning_inside_a_test_is_an_error"
    command = [sys.executable, "-m", "pytest", "-p", "noisy", "-n", "1", one]
    environment = os.environ | {"PYTHONPATH": path, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "INTERNALERROR" in done.stdout + done.stderr) == (0, False), done.stdout + done.stderr


def test_a_warning_inside_a_test_is_an_error():
    with pytest.raises(UserWarning, match="anything"):
        warnings.warn("anything", stacklevel=1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_a_test_says_of_warnings_itself_holds():
    warnings.warn("anything", stacklevel=1)


def test_each_tenth_has_whole_files():
    files = [path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "tests").rglob("test_*.py")]
    assert {tenth_of(f"{file}::test_one") for file in files} == {*range(TENTHS)}
    assert all(tenth_of(f"{file}::test_one[0]") == tenth_of(f"{file}::test_two") for file in files)


@pytest.mark.nightly
def test_a_tenth_leaves_out_the_files_of_the_others():
    def collected(tenth):
        command = [sys.executable, "-m", "pytest", "-n", "0", "--collect-only", "tests/test_suite.py"]
        done = subprocess.run(
            [*command, "--tenth", str(tenth)], cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
        return done.returncode, "::" in done.stdout

    tenth = tenth_of("tests/test_suite.py")
    assert collected(tenth) == (0, True)
    assert collected((tenth + 1) % TENTHS) == (pytest.ExitCode.NO_TESTS_COLLECTED, False)
