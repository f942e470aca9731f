"""A user's own model.py, hpo.py, conf/ and so on in the working directory: ours are found all the same, and theirs."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from hpo.errors import ConfigError
from hpo.workers.objective.path import origin_of
from tests.hpo.cli.commands import QUICK
from tests.studies import REPOSITORY

NAMES = ("model.py", "hpo.py", "conf", "tests", "train.py", "data")
RAY = ("dispatch=ray", "dispatch.workers=1")
OURS = (*QUICK, "study.trials=1", "split.folds=1")
THEIRS = (
    *("study.name=own", "study.metric=score", "study.direction=maximize", "study.trials=1", "track=none"),
    *("data=none", "model=none", "training=none", "split.folds=1", "space=none", "+x=1", "space.x=[1,2]"),
)
OWN_TRAINER = """
import conf, data, tests
import model
def run(task):
    return {"score": model.SCORE + conf.SCORE + data.SCORE + tests.SCORE}
"""


def occupied(name, content="raise RuntimeError('imported in place of ours')"):
    """Write a module of the user's own, or a package."""
    path = Path(name) if name.endswith(".py") else Path(name, "__init__.py")
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")


def hpo(*arguments, python=sys.executable, options=("-P",)):
    """Run `hpo` as its console script does, whose folder comes first on Python's path in place of the working one."""
    done = subprocess.run(
        [python, *options, "-m", "hpo", *arguments], capture_output=True, text=True, check=False, timeout=240
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def searched(*arguments, **options):
    code, out, err = hpo("search", *arguments, **options)
    assert code == 0, out + err
    return out


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("where", "options"),
    [(("dispatch=local", "track=mlflow"), ("-P",)), (RAY, ("-P",)), ((), ())],
    ids=["local", "ray", "python -m"],
)
def test_the_toolkits_own_objective_is_trained_whatever_lies_in_the_working_directory(where, options):
    """With `python -m` the working directory comes first: a `hpo.py` in it is what runs."""
    for name in (*NAMES, "mlflow.py") if options else NAMES:
        if options or name != "hpo.py":
            occupied(name)
    out = searched(*OURS, *where, options=options)
    assert "0 failed" in out
    assert "MLflow is incomplete" not in out


@pytest.mark.slow("local")
@pytest.mark.nightly
@pytest.mark.parametrize("where", [("dispatch=local",), RAY], ids=["local", "ray"])
def test_a_users_own_modules_come_first_for_his_own_trainer(where):
    for each in ("model.py", "conf", "tests", "data"):
        occupied(each, "SCORE = 1")
    occupied("hpo.py")
    occupied("train.py", OWN_TRAINER)
    assert "winner: trial 0, score 4\n" in searched("objective=train:run", *THEIRS, *where)


@pytest.mark.nightly
def test_an_own_model_py_may_be_the_objective():
    """Also with `-m`, where the working directory comes first, and other names beside it."""
    occupied("model.py", "def train(task):\n    return {'score': 7.0}\n")
    for name in ("conf", "tests", "train.py", "data"):
        occupied(name)
    assert "score 7.0" in searched("objective=model:train", *THEIRS, "dispatch=local", options=())


def test_a_module_of_the_same_whole_name_as_ours_is_refused(tmp_path):
    occupied("model", "")
    Path("model/objective.py").touch()
    with pytest.raises(ConfigError, match=r"is both the toolkit's and .*/model/objective.py"):
        origin_of("model.objective:run_fold", str(tmp_path))
    # The repository is a working directory, too.
    assert origin_of("model.objective:run_fold", str(REPOSITORY)) == "toolkit"


def test_an_objective_in_an_own_hpo_py_is_told_to_take_another_name(tmp_path):
    occupied("hpo.py")
    with pytest.raises(ConfigError, match=r"give .*/hpo\.py another name"):
        origin_of("hpo:train", str(tmp_path))


@pytest.mark.nightly
def test_a_wheel_is_out_of_the_way_as_well(tmp_path_factory):
    python = installed(tmp_path_factory.mktemp("wheel"))
    for name in NAMES:
        occupied(name)
    assert "0 failed" in searched(*OURS, *RAY, python=python)


def installed(folder):
    """Return the Python of an environment with the wheel in it, and with the libraries of this one."""
    pip = [sys.executable, "-m", "pip", "--quiet"]
    built = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(copied(folder / "source"))]
    subprocess.run([*pip, *built], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    wheel = next(folder.glob("*.whl"))
    subprocess.run([*pip, "--python", str(python), "install", "--no-deps", str(wheel)], check=True)
    asked = [python, "-P", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    # A line of a .pth is a folder: its own .pth files, by which an editable hpo is found, are not read.
    Path(packages, "libraries.pth").write_text(sysconfig.get_path("purelib") + os.linesep)
    asked = [python, "-P", "-c", "import hpo, model; print(hpo.__file__, model.__file__)"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    assert all(Path(file).is_relative_to(packages) for file in found)
    return str(python)


def copied(folder):
    """Return a copy of what a wheel is built from, so that building leaves nothing in the repository."""
    for name in ("hpo", "model", "conf"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, folder)
    return folder
