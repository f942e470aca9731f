"""`hpo` as a program of its own, and what it leaves alone where it runs inside another."""

import subprocess
import sys

from hpo import __version__


def test_it_runs_as_a_module_by_the_name_of_the_package():
    def said(*words):
        command = [sys.executable, "-m", "hpo", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert said("--version") == (0, f"hpo {__version__}\n", "")
    code, _, err = said("serach")
    assert (code, err.count("\n")) == (2, 1)
