"""The first signal stops new tasks, saves, and prints how to continue; the second ends at once. Both lose nothing."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.faults.driver import LOCAL, TRACKED, gone_on, outliving, start, wait_for_file, wait_for_line


def end_by(number, driver, code, most_seconds=10.0, to_group=False):
    signalled = time.monotonic()
    (os.killpg if to_group else os.kill)(driver.pid, number)
    assert driver.wait(60) == code
    assert time.monotonic() - signalled < most_seconds
    # MLflow's process has the same standard error, and uses it a moment longer.
    _, err = driver.communicate(timeout=60)
    assert ("continue with: hpo resume toy" in err, "Traceback" in err) == (True, False), err
    return err


@pytest.mark.slow
def test_the_first_signal_saves_and_prints_how_to_continue(undisturbed):
    Path("wait").touch()
    driver = start("search", "objective=toy_faults:waits", *LOCAL)
    wait_for_line(driver, " 2/15")
    assert "2 of 15 trials are saved in runs/toy" in end_by(signal.SIGINT, driver, 130)
    Path("wait").unlink()
    assert gone_on() == undisturbed


@pytest.mark.slow
def test_the_second_signal_ends_at_once_although_the_objective_ignores_the_first(undisturbed):
    Path("ignores").touch()
    driver = start("search", "objective=toy_faults:ignores", *LOCAL)
    wait_for_file("is_deaf")
    time.sleep(0.2)
    driver.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert driver.poll() is None
    end_by(signal.SIGINT, driver, 130, most_seconds=1.0)
    Path("ignores").unlink()
    assert gone_on() == undisturbed


@pytest.mark.nightly
def test_a_signal_to_the_whole_group_on_ray_with_mlflow_saves_and_leaves_no_process(undisturbed):
    Path("wait").touch()
    driver = start("search", "objective=toy_faults:waits", *TRACKED, "dispatch.workers=2", "dispatch.retries=0")
    wait_for_line(driver, " 2/15")
    children = psutil.Process(driver.pid).children(recursive=True)
    end_by(signal.SIGHUP, driver, 129, most_seconds=30.0, to_group=True)
    assert not outliving(children, 10.0)
    Path("wait").unlink()
    assert gone_on() == undisturbed


@pytest.mark.slow
def test_a_command_that_is_no_search_has_the_same_exit_codes_and_no_traceback():
    driver = start("train", "objective=toy_faults:sleeps", "model=none", "data=none", "training=none", "+x=1")
    wait_for_file("sleeps")
    driver.send_signal(signal.SIGTERM)
    _, err = driver.communicate(timeout=10)
    assert (driver.returncode, err) == (143, "")
