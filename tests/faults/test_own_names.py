"""A user's model.py, hpo.py, conf/ and so on in the working directory: the toolkit and the user each find their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from hpo.errors import ConfigError
from hpo.workers.objective.path import origin_of
from tests.hpo.cli.commands import QUICK
from tests.studies import REPOSITORY, refuses

NAMES = ("model.py", "hpo.py", "conf", "tests", "train.py", "data", "mlflow.py")
OURS = (*QUICK, "study.trials=1", "split.folds=1", "dispatch=ray", "dispatch.workers=1", "track=mlflow")
THEIRS = (
    *("study.name=own", "study.metric=score", "study.direction=maximize", "study.trials=1", "track=none"),
    *("data=none", "model=none", "training=none", "space=none", "+x=1", "space.x=[1,2]", "dispatch=local"),
)
OWN_TRAINER = """
import conf, data, tests
import model
def run(task):
    return {"score": model.SCORE + conf.SCORE + data.SCORE + tests.SCORE}
"""


def occupied(name, content="raise RuntimeError('imported in place of ours')"):
    path = Path(name) if name.endswith(".py") else Path(name, "__init__.py")
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")


def searched(*arguments, options=("-P",)):
    """Run `hpo search` as its console script does: the script's folder is first on Python's path, not this one."""
    command = [sys.executable, *options, "-m", "hpo", "search", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
def test_the_toolkits_own_objective_is_trained_on_ray_whatever_the_working_directory_contains():
    for name in NAMES:
        occupied(name)
    out = searched(*OURS)
    assert ("0 failed" in out, "MLflow lacks data" in out) == (True, False)


@pytest.mark.nightly
def test_a_users_own_modules_come_first_for_his_own_trainer():
    for each in ("model.py", "conf", "tests", "data"):
        occupied(each, "SCORE = 1")
    occupied("hpo.py")
    occupied("train.py", OWN_TRAINER)
    assert "winner: trial 0, score 4\n" in searched("objective=train:run", *THEIRS)
    # With `python -m` the working directory comes first on the path.
    Path("hpo.py").unlink()
    occupied("model.py", "def train(task):\n    return {'score': 7.0}\n")
    assert "winner: trial 0, score 7\n" in searched("objective=model:train", *THEIRS, "study.name=another", options=())


def test_a_module_of_the_same_full_name_as_the_toolkits_and_an_own_hpo_py_are_refused(tmp_path):
    occupied("model", "")
    Path("model/objective.py").touch()
    with pytest.raises(ConfigError, match=r"both the toolkit and the working directory \(.*/model/objective.py"):
        origin_of("model.objective:run_fold", str(tmp_path))
    assert origin_of("model.objective:run_fold", str(REPOSITORY)) == "toolkit"
    occupied("hpo.py")
    refuses(ConfigError, r"give .*/hpo\.py another name", origin_of, "hpo:train", str(tmp_path))
