"""The first signal stops handing out, saves, and says how to go on; the second ends at once. Both lose nothing."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
import yaml

from tests.faults.driver import LOCAL, TOY, TRACKED, finished, gone_on, outliving, start, wait_for_file, wait_for_line
from tests.studies import toy_config

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
MOST_SECONDS = 10.0


def ended(driver, signalled):
    """Wait for the driver; return its exit code, what it said, and how long it took."""
    code = driver.wait(60)
    seconds = time.monotonic() - signalled
    # MLflow's process, which says that the study was stopped, has the same standard error a moment longer.
    _, err = driver.communicate(timeout=60)
    return code, err, seconds


@pytest.mark.slow("2")
@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_saves_and_says_how_to_go_on(undisturbed, number):
    Path("wait").touch()
    driver = start("search", "objective=tests.faults.objectives:waits", *LOCAL)
    wait_for_line(driver, " 2/15")
    signalled = time.monotonic()
    driver.send_signal(number)
    code, err, seconds = ended(driver, signalled)
    assert code == CODES[number]
    assert seconds < MOST_SECONDS
    assert "2 of 15 trials are saved in runs/toy" in err
    assert "continue with: hpo resume toy" in err
    assert "Traceback" not in err
    Path("wait").unlink()
    assert gone_on() == undisturbed


@pytest.mark.slow("ignores")
@pytest.mark.nightly
@pytest.mark.parametrize("objective", ["deaf", "ignores"])
def test_the_second_signal_ends_at_once_whatever_the_objective_makes_of_the_first(undisturbed, objective):
    Path(objective).touch()
    driver = start("search", f"objective=tests.faults.objectives:{objective}", *LOCAL)
    wait_for_file("is_deaf")
    time.sleep(0.2)
    driver.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert driver.poll() is None
    signalled = time.monotonic()
    driver.send_signal(signal.SIGINT)
    code, err, seconds = ended(driver, signalled)
    assert (code, seconds < 1.0) == (130, True)
    assert "continue with: hpo resume toy" in err
    Path(objective).unlink()
    assert gone_on() == undisturbed


@pytest.mark.nightly
def test_one_signal_is_enough_even_where_nobody_hears_it(undisturbed):
    Path("deaf").touch()
    driver = start("search", "objective=tests.faults.objectives:deaf", *LOCAL)
    wait_for_file("is_deaf")
    signalled = time.monotonic()
    driver.send_signal(signal.SIGTERM)
    code, err, seconds = ended(driver, signalled)
    assert (code, seconds < MOST_SECONDS) == (143, True)
    assert "continue with: hpo resume toy" in err
    Path("deaf").unlink()
    assert gone_on() == undisturbed


def test_a_command_that_is_no_search_ends_by_the_same_codes_and_without_a_traceback():
    sections = {
        "study": {"name": "own", "metric": "score", "direction": "maximize"},
        "split": toy_config()["split"] | {"folds": 1},
        "dispatch": {"threads": 1},
    }
    Path("own.yaml").write_text(yaml.safe_dump({"objective": "tests.faults.objectives:sleeps", **sections}))
    driver = start("train", "--config", "own.yaml")
    wait_for_file("sleeps")
    driver.send_signal(signal.SIGTERM)
    _, err = driver.communicate(timeout=10)
    assert (driver.returncode, err) == (CODES[signal.SIGTERM], "")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("to", "number"), [("driver", signal.SIGTERM), ("group", signal.SIGHUP), ("twice", signal.SIGINT)]
)
def test_on_ray_with_mlflow_it_saves_and_says_how_to_go_on_and_leaves_no_process(undisturbed, to, number):
    """To the driver alone, or to its whole group as a terminal and a service manager send it: workers die as well."""
    Path("wait").touch()
    waiting = ("search", "objective=tests.faults.objectives:waits")
    driver = start(*waiting, *TRACKED, "dispatch.workers=2", "dispatch.retries=0")
    wait_for_line(driver, " 2/15")
    children = psutil.Process(driver.pid).children(recursive=True)
    signalled = time.monotonic()
    if to == "group":
        os.killpg(driver.pid, number)
    else:
        driver.send_signal(number)
    if to == "twice":
        time.sleep(0.05)
        driver.send_signal(number)
    code, err, seconds = ended(driver, signalled)
    assert code == CODES[number]
    assert seconds < (2.0 if to == "twice" else MOST_SECONDS)
    assert "continue with: hpo resume toy" in err
    assert "Traceback" not in err
    assert not outliving(children, 10.0)
    Path("wait").unlink()
    assert gone_on() == undisturbed


@pytest.mark.nightly
@pytest.mark.parametrize("seconds", [1.0, 4.0])
def test_an_interruption_while_it_starts_leaves_nothing_that_is_in_the_way(undisturbed, seconds):
    """Nothing is created yet, or all that is needed."""
    Path("wait").touch()
    search = ("search", "objective=tests.faults.objectives:waits", *TOY, "dispatch.workers=2")
    driver = start(*search)
    time.sleep(seconds)
    children = psutil.Process(driver.pid).children(recursive=True)
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=30)
    # By Python itself, as long as that loads our modules.
    assert driver.returncode in (130, -signal.SIGINT)
    assert not outliving(children, 10.0)
    Path("wait").unlink()
    assert finished(*search) == undisturbed
