"""What a task can do to its process: its worker reports how it ended, and goes on with another. No Ray is needed."""

import importlib
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from hpo.workers.dispatch.process import memory_guard
from hpo.workers.dispatch.process.child import Child
from hpo.workers.dispatch.process.memory_guard import MemoryGuard, held_by_task_processes
from hpo.workers.dispatch.process.task_process import gpu_memory, release_gpu_memory
from tests.contracts.test_dispatchers import task
from tests.faults.driver import outliving
from tests.studies import REPOSITORY, environment


@pytest.fixture
def child():
    made = Child(str(REPOSITORY))
    yield made
    made.close()


def messages(child, objective, **config):
    payload = replace(task(0, "constant", **config).payload, objective=f"toy_faults:{objective}")
    return list(child.run(payload, "a call"))


def in_process(child):
    return messages(child, "names_its_process")[-1]["outcome"].metrics


def still_works(child):
    *_, last = child.run(task(0, "constant").payload, "another call")
    return last["outcome"].metrics == {"score": 1.0}


@pytest.mark.parametrize(("entry", "variable"), [("", None), ("lib", "own:.")])
def test_a_task_finds_what_the_search_found_before_it_changed_its_folder(tmp_path, monkeypatch, entry, variable):
    (tmp_path / "lib").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / entry / "beside_it.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(REPOSITORY))
    monkeypatch.setattr(sys, "path", [entry, *(path for path in sys.path if Path(path).is_absolute())])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if variable is not None:
        monkeypatch.setenv("PYTHONPATH", variable)
    importlib.import_module("beside_it")
    monkeypatch.chdir("elsewhere")
    with closing(Child(str(REPOSITORY))) as child:
        warning, last = messages(child, "finds_python", imports="beside_it")
    del sys.modules["beside_it"]
    assert (last["outcome"].error, warning["warning"]) == (None, repr(variable))


def test_a_copy_of_the_process_that_comes_back_answers_for_nobody(child):
    *points, last = messages(child, "forks")
    assert last["outcome"].metrics == {"score": 2.0}
    assert [message["point"]["epoch"] for message in points] == [1, 2]
    assert still_works(child)


def closes_everything(task):
    os.closerange(3, 256)
    time.sleep(60)


@pytest.mark.nightly
def test_a_process_that_cannot_be_talked_to_any_more_is_ended(child):
    (last,) = child.run(replace(task(0, "constant").payload, objective=f"{__name__}:closes_everything"), "a call")
    assert (last["died"]["signal"], still_works(child)) == (signal.SIGKILL, True)


@pytest.mark.slow
def test_a_death_is_noticed_while_children_live_and_they_end_with_it(child):
    began = time.monotonic()
    assert messages(child, "dies_beside_a_copy")[-1]["died"]["signal"] == signal.SIGKILL
    assert time.monotonic() - began < 20
    copy = int(Path("children").read_text())
    assert not psutil.pid_exists(copy) or outliving([psutil.Process(copy)], 5.0) == []
    assert still_works(child)


def works():
    messages(Child(str(REPOSITORY)), "leaves_a_program")
    sys.stdout.write("done\n")
    sys.stdout.flush()
    time.sleep(60)


@pytest.mark.slow
def test_with_the_worker_ends_what_its_tasks_have_left_behind():
    """The worker itself is killed, so that nobody is left to end anything but the keeper of the group."""
    command = [sys.executable, "-c", f"from {__name__} import works; works()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as worker:
        assert worker.stdout.readline() == "done\n"
        started = [psutil.Process(int(number)) for number in Path("children").read_text().split()]
        started += psutil.Process(worker.pid).children(recursive=True)
        assert len(outliving(started, 0)) == len(started) > 1
        worker.kill()
    assert outliving(started, 5.0) == []


def test_the_largest_process_is_killed_before_the_machine_runs_out_and_the_figures_are_reported(monkeypatch):
    def ours():
        """Leave out processes of other studies on this machine."""
        children = {process.pid for process in psutil.Process().children()}
        return {pid: held for pid, held in held_by_task_processes().items() if pid in children}

    monkeypatch.setattr(memory_guard, "free_and_total", lambda: (2**30, 2**36))
    monkeypatch.setattr(memory_guard, "held_by_task_processes", ours)
    (last,) = messages(Child(str(REPOSITORY)), "sleeps")
    assert last["died"]["signal"] == signal.SIGKILL
    assert ", and 1.0 of 64.0 GiB were free" in last["died"]["memory"]


def test_a_process_that_is_not_the_largest_is_spared(monkeypatch):
    looks = []
    monkeypatch.setattr(memory_guard, "free_and_total", lambda: (0, 2**36))
    monkeypatch.setattr(memory_guard, "held_by_task_processes", lambda: looks.append(1) or {1: 2**40, 2: 2**30})
    guard = MemoryGuard(2)
    while guard.kill_reason is None and len(looks) < 2:
        time.sleep(0.05)
    guard.stop()
    assert guard.kill_reason is None


@pytest.mark.slow("ends2")
@pytest.mark.parametrize("ends", [{}, {"raises": True}, {"dies": True}])
def test_what_a_task_prints_comes_with_its_end_however_it_ends_without_secrets(child, ends):
    payload = replace(task(0, "constant", text="my ${oc.env:WORD}", **ends).payload, objective="toy_faults:prints")
    (last,) = child.run(replace(payload, secrets={"WORD": "abracadabra"}), "a call")
    assert last["printed"].startswith("my ")
    assert last["printed"].endswith("\nfrom a program\n")
    assert "abracadabra" not in last["printed"]
    *_, other = child.run(task(0, "constant").payload, "another call")
    assert other["printed"] == ""


def test_of_a_long_output_the_end_is_kept(child):
    (last,) = messages(child, "prints", text="x" * 300_000)
    assert re.fullmatch(r"\[37,8.*x\nfrom a program\n", last["printed"], re.DOTALL)


def test_what_a_task_prints_comes_with_its_reports_too(child, monkeypatch):
    monkeypatch.setattr("hpo.workers.dispatch.printed.SECONDS_BETWEEN_LOGS", 0.0)
    first, *_ = child.run(replace(task(0, "constant").payload, objective="toy_faults:prints_and_reports"), "a call")
    assert (first["printed"], "outcome" in first) == ("begun\n", False)


@pytest.mark.slow("True-2")
@pytest.mark.parametrize(("is_fresh", "number"), [(False, 1), (True, 2)])
def test_each_task_has_a_process_of_its_own_where_that_is_set(is_fresh, number):
    with closing(Child(str(REPOSITORY), is_fresh)) as child:
        processes = {in_process(child)["process"] for _ in range(2)}
    assert len(processes) == number


@pytest.mark.slow
def test_a_text_has_the_same_hash_in_every_process(child, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    first = in_process(child)
    child.renew()
    second = in_process(child)
    assert (first["process"] != second["process"], first["hash"]) == (True, second["hash"])


def test_the_most_memory_that_a_task_held_of_a_gpu_is_reported(monkeypatch):
    peak = {"max_memory_reserved": lambda: 3, "reset_peak_memory_stats": lambda: None}
    properties = {"get_device_properties": lambda device: SimpleNamespace(total_memory=8)}
    cuda = SimpleNamespace(is_initialized=lambda: True, **peak, **properties)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert gpu_memory() == {"gpu_memory": [3, 8]}


@pytest.mark.slow
def test_a_gpu_is_free_before_the_next_task(monkeypatch):

    class Network: ...

    network, freed = Network(), []
    network.itself, is_there = network, weakref.ref(network)
    cuda = SimpleNamespace(is_initialized=lambda: True, empty_cache=lambda: freed.append(is_there() is None))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    del network
    release_gpu_memory()
    assert freed == [True]
