"""What the Ray pool promises beyond the contract: shared GPUs, refusals, and a Ray that is absent, hangs or dies."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from hpo.errors import DispatchError
from hpo.workers.dispatch.dispatcher import Setup, make_dispatcher
from hpo.workers.dispatch.other_searches import Use
from hpo.workers.dispatch.ray import cluster as ray_cluster
from hpo.workers.dispatch.ray.address import refuse_dead_address
from hpo.workers.dispatch.ray.shares import Shares
from hpo.workers.dispatch.ray.worker_group import WorkerGroup
from tests.contracts.test_dispatchers import run, task
from tests.faults.driver import TOY, outliving, start, wait_for_file
from tests.studies import REPOSITORY, dispatch_section


@pytest.mark.slow
def test_two_workers_share_the_gpu_that_another_search_has_left(tmp_path):
    """Ray is told of two GPUs that are not there; only its bookkeeping is under test."""
    section = dispatch_section(gpus=2, cpus_per_worker=0.1, workers=None, gpus_per_worker=0.5)
    pool = make_dispatcher(Setup(settings=section, import_from=str(REPOSITORY), in_use=Use(0.0, 1.0, (0,))))
    try:
        assert pool.slots == 2
        outcomes, points = run(pool, [task(n, "visible_gpus", folder=str(tmp_path)) for n in (0, 1)])
    finally:
        pool.close()
    assert points[0][0]["process"] != points[1][0]["process"]
    assert {outcome.metrics["gpu"] for outcome in outcomes.values()} == {1}
    assert (outcomes[0].metrics["num_gpus"], outcomes[0].metrics["memory"]) == (1, 0.5)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_workers_that_cannot_start_for_want_of_room_say_so(monkeypatch):
    """Ray says no more than that the worker died."""

    def get(_answer):
        raise RuntimeError

    group = WorkerGroup.__new__(WorkerGroup)
    group._ray = SimpleNamespace(get=get, exceptions=SimpleNamespace(RayError=RuntimeError))
    group.starting, group._num_failed_starts, group.shares = {"answer": None}, 4, Shares(workers=2, gpus=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
    with pytest.raises(DispatchError, match="has 4,096 bytes free: make room"):
        group.add_started("answer")


@pytest.mark.nightly
def test_it_starts_behind_its_lock_where_ray_was_imported_before():
    """Ray reads its variables on import; a notebook imports it before us."""
    code = "import ray\nfrom hpo.workers.dispatch.ray.cluster import RayCluster\nRayCluster(None, 0, 1).close()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=REPOSITORY)


MOST_SECONDS = 60.0


def test_a_port_on_which_something_listens_that_is_no_ray_is_refused():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(DispatchError, match=r"does not answer as a Ray cluster within 0\.5 s"),
    ):
        refuse_dead_address(f"127.0.0.1:{server.getsockname()[1]}", seconds=0.5)


def test_what_a_dead_driver_left_is_deleted_and_what_a_living_one_has_is_not():
    gone = 2**22 + 1
    assert not psutil.pid_exists(gone)
    stale = Path(tempfile.mkdtemp(prefix=f"hpo-ray-{gone}-"))
    living = Path(tempfile.mkdtemp(prefix=f"hpo-ray-{os.getpid()}-"))
    try:
        ray_cluster.remove_abandoned()
        assert not stale.exists()
        assert living.exists()
    finally:
        living.rmdir()


@pytest.mark.nightly
def test_a_server_of_ray_that_hangs_while_it_starts_is_given_up_and_its_logs_are_kept():
    """The server is stopped by a signal once it has opened a log."""
    driver = start("search", "objective=toys:score", *TOY, "dispatch.workers=1")
    began = time.monotonic()
    hanging = when_logging(driver, "raylet")
    hanging.suspend()
    _, err = driver.communicate(timeout=MOST_SECONDS)
    (line,) = err.strip().splitlines()
    assert (driver.returncode, Path("runs/toy").exists()) == (2, False)
    assert time.monotonic() - began < MOST_SECONDS
    found = re.fullmatch(r"error: dispatch: Ray cannot start: .*; its logs are in (\S+); try again, or .*", line)
    assert found, line
    logs = Path(found[1])
    assert any(logs.rglob("raylet*"))
    assert not outliving([hanging], 10.0)
    shutil.rmtree(logs)


def when_logging(driver, server):
    """Wait for Ray's server of this name to write a log, and return its process."""
    logs = f"hpo-ray-{driver.pid}-*/ray/session_latest/logs/{server}*"
    while driver.poll() is None:
        servers = [p for p in psutil.Process(driver.pid).children(recursive=True) if p.name().startswith(server)]
        if servers and any(Path(tempfile.gettempdir()).glob(logs)):
            return servers[0]
        time.sleep(0.005)
    raise AssertionError(f"there was no {server}")


@pytest.mark.nightly
def test_a_raylet_that_is_killed_is_reported_within_half_a_minute():
    driver = start("search", "objective=toy_faults:sleeps", *TOY, "dispatch.workers=2")
    wait_for_file("sleeps")
    servers = psutil.Process(driver.pid).children(recursive=True)
    (raylet,) = (process for process in servers if process.name() == "raylet")
    began = time.monotonic()
    raylet.kill()
    _, err = driver.communicate(timeout=MOST_SECONDS)
    assert time.monotonic() - began < 30
    assert driver.returncode == 1
    last = err.strip().splitlines()[-1]
    assert last.startswith("error: dispatch: Ray has died")
    assert "hpo resume toy" in last
