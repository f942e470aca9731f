"""Workers on Ray that die, hang, or run out of memory: one pool for all of it, since starting Ray takes seconds."""

import contextlib
import signal
from dataclasses import replace

import psutil
import pytest

from hpo.workers.dispatch.ray.pool import RayDispatcher
from hpo.workers.training.tasks import Task
from tests.contracts.test_dispatchers import run
from tests.contracts.test_dispatchers import task as toy_task
from tests.faults.driver import outliving
from tests.studies import REPOSITORY, dispatch_section, run_toy, shipped, toy_config

SILENT_SECONDS = 4.0


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """The workers' working directory, which is the one in which Ray was started; flags lie there."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def pool(directory):
    with contextlib.chdir(directory):
        dispatcher = RayDispatcher(dispatch_section(workers=2, timeout_seconds=SILENT_SECONDS), str(REPOSITORY))
    yield dispatcher
    dispatcher.close()


def task(number, objective, **changes):
    payload = toy_task(number, "constant").payload
    config = payload.config | changes.pop("config", {})
    return Task(number, 0, replace(payload, objective=f"tests.faults.objectives:{objective}", config=config, **changes))


def others():
    """Tasks that must not notice."""
    return [toy_task(number, "constant") for number in (7, 8, 9)]


def are_unaffected(outcomes):
    return [outcomes[number].error for number in (7, 8, 9)] == [None] * 3


@pytest.mark.slow
def test_a_task_that_kills_its_worker_fails_after_its_tries_and_says_how(pool):
    deadly = {"killed": "signal 9", "crashes": "signal 11", "leaves": "exit code 3"}
    tasks = [task(number, objective, config={"signal": signal.SIGKILL}) for number, objective in enumerate(deadly)]
    outcomes, _ = run(pool, [*tasks, *others()])
    for number, how in enumerate(deadly.values()):
        assert outcomes[number].error == f"worker died ({how}), attempt 3 of 3"
        assert outcomes[number].attempt == 3
    assert are_unaffected(outcomes)


@pytest.mark.nightly
def test_a_trial_whose_worker_dies_every_time_has_failed_and_the_study_goes_on(undisturbed, pool, directory, tmp_path):
    (directory / "worker_dies").write_text("4")
    tree = toy_config(shipped("evolutionary"), trials=15, objective="tests.faults.objectives:dies_with_its_worker")
    rows = run_toy(tmp_path / "study", tree, pool)
    assert (rows[4]["state"], rows[4]["error"]) == ("failed", "fold 0: worker died (signal 9), attempt 3 of 3")
    assert rows[:4] == undisturbed[:4]
    assert len(rows) == 15


@pytest.mark.slow
def test_a_retried_task_goes_on_from_its_last_state(pool, directory, tmp_path):
    """The length of the file `deaths` says how often to die."""
    (directory / "deaths").write_bytes(bytes(1))
    outcomes, _ = run(pool, [task(0, "dies_in_the_middle", resume_dir=str(tmp_path / "state"))])
    assert (outcomes[0].error, outcomes[0].attempt) == (None, 2)
    # Every epoch was trained once: none again after the process died.
    assert (directory / "epochs").read_text().splitlines() == [f"0 {epoch}" for epoch in (1, 2, 3, 4)]


@pytest.mark.slow
def test_workers_that_fall_silent_are_killed_and_their_slots_are_used_again(pool, directory):
    """Both at once, so that the other tasks have no place but theirs."""
    before = psutil.Process().children(recursive=True)
    outcomes, _ = run(pool, [task(0, "stops_its_process"), task(1, "sleeps"), *others()])
    for number in (0, 1):
        assert outcomes[number].error == f"no report for {SILENT_SECONDS:g} s: the worker was killed"
    assert are_unaffected(outcomes)
    stopped = [process for process in before if process.is_running() and process.status() == psutil.STATUS_STOPPED]
    assert not outliving(stopped, 5.0)
    # Each waits for the other, so that they only end where both slots work.
    outcomes, _ = run(pool, [task(number, "meets_another") for number in (0, 1)])
    assert outcomes[0].error is outcomes[1].error is None


@pytest.mark.slow
def test_want_of_memory_costs_one_task(pool):
    outcomes, _ = run(pool, [task(0, "greedy"), *others()])
    assert outcomes[0].error.startswith("MemoryError")
    assert "GiB were free" in outcomes[0].error
    assert are_unaffected(outcomes)
