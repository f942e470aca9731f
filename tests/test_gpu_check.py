"""`benchmarks/gpu.sh`, which is run where there is a GPU: here it is shown that it will run there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.studies import REPOSITORY

# Python imports it when it starts, and then none of these.
REFUSAL = """
import sys

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("hpo", "ray", "mlflow", "optuna", "hydra", "omegaconf"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refusal())
"""


def check(root, *arguments, **environment):
    command = [str(root / "benchmarks" / "gpu.sh"), *arguments]
    environment = os.environ | {"PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""} | environment
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)


@pytest.mark.nightly
def test_without_a_gpu_it_says_so_and_writes_nothing():
    done = check(REPOSITORY, OUT="out")
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (3, 1, "")
    assert "there is no GPU here" in done.stdout
    assert not Path("out").exists()


@pytest.mark.nightly
def test_it_runs_with_the_model_and_its_tests_alone(tmp_path):
    for folder in ("model", "conf", "benchmarks", "tests/model"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    (tmp_path / "tests/__init__.py").touch()
    (tmp_path / "sitecustomize.py").write_text(REFUSAL)
    done = check(tmp_path, "--smoke", "page.md")
    assert done.returncode == 0, done.stdout + done.stderr
    page = Path("page.md").read_text()
    # The head, and a table in each of the five parts.
    assert (page.count("\n## "), page.count("\n| --- ")) == (5, 5)
    assert "Ended" not in page
