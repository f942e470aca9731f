"""Runs the real command in a process of its own, to be broken from outside."""

import subprocess
import sys
import time
from pathlib import Path

import psutil

from hpo.study.files.folder import StudyFolder
from tests.studies import environment, rows, run_toy, shipped, toy_config

TOY = (
    *("+toy={layers: 2, width: 16, nonlinearity: relu, lr: 0.01, momentum: 0.5, always: 1}", "space=none"),
    *("space.toy.layers=[1,2,3,4,5]", "space.toy.width=[8,16,32,64]", "space.toy.lr=[0.001,0.01,0.1]"),
    *("space.first=[]", "strategy=evolutionary", "study.name=toy", "study.metric=score", "study.trials=15"),
    "track=none",
)
TRACKED, LOCAL = tuple(word for word in TOY if word != "track=none"), (*TOY, "dispatch=local")


def undisturbed_rows(folder):
    return run_toy(folder, toy_config(shipped("evolutionary"), trials=15))


def start(*arguments, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    # Each line as soon as it is printed, since tests wait for lines.
    own = environment() | {"PYTHONUNBUFFERED": "1"} | options.pop("env", {})
    command = [sys.executable, "-m", "hpo.cli.main", *arguments]
    return subprocess.Popen(command, env=own, start_new_session=True, text=True, **options)


def hpo(*arguments, **options):
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def finished(*arguments, **options):
    code, out, err = hpo(*arguments, **options)
    assert code == 0, out + err
    return rows(Path("runs/toy/trials.csv"))


def gone_on(name="toy", trials=None):
    """Go on with a study in this process, as `hpo resume` does but for the page of the report, which takes seconds."""
    config = StudyFolder(Path("runs") / name).config()
    if trials is not None:
        config = config.model_copy(update={"study": config.study.model_copy(update={"trials": trials})})
    return run_toy(Path("runs") / name, config.to_dict())


def wait_for_line(process, words):
    for line in process.stdout:
        if words in line:
            return line
    raise AssertionError(f"the driver ended without saying {words!r}: {process.stderr.read()}")


def wait_for_file(name, seconds=60):
    deadline = time.monotonic() + seconds
    while not Path(name).exists():
        assert time.monotonic() < deadline, f"there is no {name}"
        time.sleep(0.02)


def outliving(processes, seconds):
    """Return those of the processes that still live after so many seconds; whom nobody reaps lives no more."""
    deadline = time.monotonic() + seconds
    while (alive := [process for process in processes if _lives(process)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return alive


def _lives(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
