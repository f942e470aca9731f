"""Workers on Ray that die or hang. All share one pool: Ray starts slowly."""

import contextlib
import signal
from dataclasses import replace

import psutil
import pytest

from hpo.workers.dispatch.dispatcher import Setup, make_dispatcher
from hpo.workers.training.tasks import Task
from tests.contracts.test_dispatchers import run
from tests.contracts.test_dispatchers import task as toy_task
from tests.faults.driver import outliving
from tests.studies import REPOSITORY, dispatch_section

pytestmark = pytest.mark.slow
SILENT_SECONDS = 3.0


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Return the workers' working directory, in which Ray was started, and in which flags are."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def pool(directory):
    with contextlib.chdir(directory):
        settings = dispatch_section(workers=2, timeout_seconds=SILENT_SECONDS)
        dispatcher = make_dispatcher(Setup(settings=settings, import_from=str(REPOSITORY)))
    yield dispatcher
    dispatcher.close()


def task(number, objective, **changes):
    payload = toy_task(number, "constant").payload
    config = payload.config | changes.pop("config", {})
    return Task(number, 0, replace(payload, objective=f"toy_faults:{objective}", config=config, **changes))


def others():
    return [toy_task(number, "constant") for number in (7, 8, 9)]


def are_unaffected(outcomes):
    return [outcomes[number].error for number in (7, 8, 9)] == [None] * 3


def test_a_task_that_kills_its_worker_fails_after_its_tries_and_says_how(pool):
    deadly = {"killed": "signal 9", "leaves": "exit code 3"}
    tasks = [task(number, objective, config={"signal": signal.SIGKILL}) for number, objective in enumerate(deadly)]
    outcomes, _ = run(pool, [*tasks, *others()])
    for number, how in enumerate(deadly.values()):
        assert (outcomes[number].error, outcomes[number].attempt) == (f"worker died ({how}), attempt 3 of 3", 3)
        assert outcomes[number].worker > 0 < outcomes[number].started, "its time counts in the report"
    assert are_unaffected(outcomes)


def test_a_retried_task_goes_on_from_its_last_state(pool, directory, tmp_path):
    outcomes, _ = run(pool, [task(0, "dies_in_the_middle", resume_dir=str(tmp_path / "state"))])
    assert (outcomes[0].error, outcomes[0].attempt) == (None, 2)
    assert (directory / "epochs").read_text().split() == ["1", "2", "3", "4"], "no epoch is trained again"


def test_workers_that_fall_silent_are_killed_and_their_slots_are_used_again(pool, directory):
    before = psutil.Process().children(recursive=True)
    outcomes, _ = run(pool, [task(0, "stops_its_process"), task(1, "sleeps"), *others()])
    for number in (0, 1):
        assert outcomes[number].error == f"no report within dispatch.timeout_seconds={SILENT_SECONDS:g}"
        assert outcomes[number].worker > 0 < outcomes[number].started
    assert are_unaffected(outcomes)
    stopped = [process for process in before if process.is_running() and process.status() == psutil.STATUS_STOPPED]
    assert not outliving(stopped, 5.0)
    outcomes, _ = run(pool, [task(number, "meets_another") for number in (0, 1)])
    assert outcomes[0].error is outcomes[1].error is None
