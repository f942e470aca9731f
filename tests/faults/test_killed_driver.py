"""A killed driver: nothing is lost, repeated, or left behind; a second driver is refused. More seeds: faults.md."""

import contextlib
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from hpo.study.preparing.preparation import load_study
from tests.faults.driver import LOCAL, TRACKED, finished, gone_on, hpo, outliving, start, wait_for_line
from tests.studies import rows

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
# After so many kills it runs to its end, because a busy machine may not finish between two of them.
MOST_KILLS = 6 if "HPO_FAULT_SEEDS" in os.environ else 2
SEEDS = range(int(os.environ.get("HPO_FAULT_SEEDS", "1")))


def kill_until_done(arguments, rng, shortest, longest):
    saved, kills = set(), 0
    Path("starts").touch()
    while True:
        before, driver = len(Path("starts").read_text().splitlines()), start(*arguments)
        is_killed = kills < MOST_KILLS and kill_after(driver, rng.uniform(shortest, longest))
        out, err = driver.communicate(timeout=240)
        # A trial that an earlier driver printed as finished was in the record by then.
        assert saved.isdisjoint(Path("starts").read_text().splitlines()[before:]), "a recorded trial is repeated"
        saved |= set(re.findall(r"^ *\d+/15  trial (\d+) ", out, re.MULTILINE))
        if not is_killed:
            break
        kills += 1
    assert driver.returncode == 0, out + err
    assert kills > 0
    sys.stdout.write(f"killed {kills} times\n")


def kill_after(driver, seconds):
    """Kill the driver after so many seconds; return whether it was still running. None of its processes may remain."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        driver.wait(seconds)
        return False
    children = psutil.Process(driver.pid).children(recursive=True)
    driver.kill()
    assert not outliving(children, 10.0), "processes outlive their driver"
    assert not list(Path(tempfile.gettempdir()).glob(f"hpo-ray-{driver.pid}-*")), "Ray's folder outlives its driver"
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_local_driver_that_is_killed_again_and_again_ends_in_the_same_trials(undisturbed, seed):
    arguments = ("search", "objective=toy_faults:logged", "+seconds=0.3", *LOCAL, "report.figures=false")
    kill_until_done(arguments, random.Random(seed), 1.0, 5.0)
    assert rows(Path("runs/toy/trials.csv")) == undisturbed


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS)
def test_on_ray_with_mlflow_it_leaves_no_process_and_no_run_running_and_the_same_trials(undisturbed, seed):
    from tests.tracked import assert_shows_the_record, runs_of

    arguments = ("search", "objective=toy_faults:logged", "+seconds=1.0", *TRACKED, "dispatch.workers=2")
    kill_until_done(arguments, random.Random(seed), 3.0, 9.0)
    assert rows(Path("runs/toy/trials.csv")) == undisturbed
    study = load_study("toy")
    parent, children = runs_of(study)
    assert "RUNNING" not in {run.info.status for run in (parent, *children.values())}
    assert finished("sync", "toy") == undisturbed
    assert_shows_the_record(study)


@pytest.mark.slow
def test_a_second_driver_is_refused_with_process_and_host_and_the_lock_of_a_dead_one_is_taken_over(undisturbed):
    Path("wait").touch()
    first = start("search", "objective=toy_faults:waits", *LOCAL)
    wait_for_line(first, " 2/15")
    code, _, err = hpo("resume", "toy")
    assert code == 2
    assert f"runs/toy is being run by process {first.pid} on {os.uname().nodename}" in err
    assert len(err.strip().splitlines()) == 1
    first.kill()
    first.communicate()
    Path("wait").unlink()
    assert gone_on() == undisturbed
