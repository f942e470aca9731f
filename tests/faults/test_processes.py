"""What a task can do to its process: its worker tells how it ended, and goes on with another. No Ray is needed."""

import functools
import os
import signal

import psutil
import pytest

from hpo.dispatch import child as child_module
from hpo.dispatch import memory_guard
from hpo.dispatch.child import Child
from hpo.dispatch.memory_guard import MemoryGuard
from tests.contracts.test_dispatchers import task
from tests.studies import REPOSITORY


@pytest.fixture
def child():
    made = Child(str(REPOSITORY))
    yield made
    if made._process is not None:
        # The end of its input is the end of its work.
        made._tasks.close()
        made._ended()


def messages(child, objective, **config):
    payload = dict(task(0, "constant", **config).payload) | {"objective": f"tests.faults.objectives:{objective}"}
    return list(child.run(payload))


def still_works(child):
    *_, last = child.run(dict(task(0, "constant").payload))
    return last["outcome"]["metrics"] == {"score": 1.0}


@pytest.mark.parametrize(
    ("objective", "number", "code"),
    [
        ("killed", signal.SIGKILL, None),
        ("killed", signal.SIGTERM, None),
        ("crashes", signal.SIGSEGV, None),
        ("leaves", None, 3),
    ],
)
def test_how_a_process_died_is_told_and_the_next_task_has_another(child, objective, number, code):
    *_, last = messages(child, objective, signal=number)
    assert last == {"died": {"signal": number, "exit_code": code, "memory": None}}
    assert still_works(child)


def test_what_it_sent_before_its_death_arrives(child):
    first, _ = messages(child, "killed", signal=signal.SIGKILL)
    assert first["point"]["epoch"] == 1


def test_a_process_that_cannot_be_talked_to_any_more_is_ended(child, monkeypatch):
    monkeypatch.setattr(child_module, "_SECONDS_TO_DIE", 0.2)
    (last,) = messages(child, "closes_everything")
    assert last["died"]["signal"] == signal.SIGKILL
    assert still_works(child)


def test_want_of_memory_is_a_failure_with_the_figures(child):
    (last,) = messages(child, "greedy")
    error = last["outcome"]["error"]
    assert error.startswith("MemoryError")
    assert "it held" in error
    assert "GiB were free" in error
    assert still_works(child)


def test_the_largest_process_is_killed_before_the_machine_runs_out_and_the_figures_are_told(monkeypatch):
    everybody = memory_guard._held_by_task_processes

    def ours():
        """Without those of other studies that happen to run on this machine."""
        return {pid: held for pid, held in everybody().items() if psutil.Process(pid).ppid() == os.getpid()}

    monkeypatch.setattr(memory_guard, "_held_by_task_processes", ours)
    monkeypatch.setattr(child_module, "MemoryGuard", functools.partial(MemoryGuard, memory=lambda: (2**30, 2**36)))
    (last,) = messages(Child(str(REPOSITORY)), "sleeps")
    assert last["died"]["signal"] == signal.SIGKILL
    assert "when 1.0 of 64.0 GiB were free" in last["died"]["memory"]


def test_a_process_that_is_not_the_largest_is_spared(monkeypatch):
    """It is another worker's to kill; each judges its own process alone."""
    monkeypatch.setattr(memory_guard, "_held_by_task_processes", lambda: {1: 2**40, 2: 2**30})
    guard = MemoryGuard(2, lambda: (0, 2**36))
    guard._thread.join(0.6)
    assert guard._thread.is_alive()
    guard.stop()
    assert guard.verdict is None
