"""The real command on Ray and MLflow, stopped and killed: everything that finished is saved, and it can go on."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.studies import REPOSITORY, rows

ARGUMENTS = [
    "search",
    "objective=tests.toy:slow_score",
    "+toy={layers: 2, width: 16, nonlinearity: relu, lr: 0.01, momentum: 0.5}",
    "space=none",
    "space.toy.layers=[1,2,3,4,5]",
    "space.toy.width=[8,16,32,64]",
    "space.toy.lr=[0.001,0.01,0.1]",
    "strategy=evolutionary",
    "study.name=toy",
    "study.metric=score",
    "study.trials=40",
    "dispatch.workers=2",
]


def start(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "hpo.cli.main", *arguments]
    return subprocess.Popen(command, env=environment, start_new_session=True, text=True, **options)


def finish(*arguments):
    process = start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    return rows(Path("runs/toy/trials.csv"))


def wait_for_trials(process, count):
    """Wait until the driver has printed this many finished trials."""
    for line in process.stdout:
        if f"{count:>2}/40" in line:
            return
    raise AssertionError("the search ended before it could be stopped")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("undisturbed"))
        return finish(*ARGUMENTS)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_go_on(undisturbed, number, code):
    driver = start(*ARGUMENTS, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for_trials(driver, 9)
    stopped = time.monotonic()
    driver.send_signal(number)
    _, err = driver.communicate(timeout=60)
    assert driver.returncode == code
    assert time.monotonic() - stopped < 15
    assert "hpo resume toy" in err
    assert "Traceback" not in err
    assert finish("resume", "toy") == undisturbed


@pytest.mark.slow
def test_kill_leaves_no_process_behind_and_resumes_to_the_same_trials(undisturbed):
    driver = start(*ARGUMENTS, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_for_trials(driver, 7)
    children = psutil.Process(driver.pid).children(recursive=True)
    driver.kill()
    driver.communicate(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=10)
    # Ray's two agents first try, for minutes, to tell the dead cluster that they leave; they hold no worker.
    assert not [p for p in alive if p.is_running() and "Agent" not in p.name()]
    assert finish(*ARGUMENTS) == undisturbed


def test_sync_sends_what_was_not_tracked_and_the_ui_shows_it():
    finish(*ARGUMENTS, "study.trials=3", "track=none", "dispatch=local", "dispatch.workers=1")
    assert not Path("mlflow.db").exists()
    done = start("sync", "toy", stdout=subprocess.PIPE)
    assert "3 trials are in sqlite:///mlflow.db" in done.communicate(timeout=120)[0]
    server = start("ui", "--port", "5987", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert b"MLflow" in _get("http://127.0.0.1:5987/", server)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)


def _get(url, server):
    for _ in range(120):
        assert server.poll() is None
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read()
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"nothing answered at {url}")
