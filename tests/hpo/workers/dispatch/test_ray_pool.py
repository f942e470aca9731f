"""What the Ray pool promises beyond the contract: shared GPUs, refusals, and a Ray that is absent, hangs or dies."""

import math
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
from unittest.mock import MagicMock

import psutil
import pytest

from hpo.errors import DispatchError, HpoError
from hpo.workers.dispatch.dispatcher import Setup, make_dispatcher
from hpo.workers.dispatch.other_searches import Use
from hpo.workers.dispatch.ray import cluster, private
from hpo.workers.dispatch.ray.address import refuse_dead_address
from hpo.workers.dispatch.ray.cluster import RayCluster
from hpo.workers.dispatch.ray.pool import RayDispatcher
from hpo.workers.dispatch.ray.private import refuse_stale
from hpo.workers.dispatch.ray.shares import Shares
from hpo.workers.dispatch.ray.worker_group import WorkerGroup
from tests.contracts.test_dispatchers import run, task
from tests.faults.driver import TOY, outliving, start, wait_for_file
from tests.studies import REPOSITORY, dispatch_section, refuses

MOST_SECONDS = 60.0
ANSWER = SimpleNamespace(stdout="", stderr="as the user\nwrong token\n")


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


@pytest.fixture
def ray(monkeypatch, tmp_path):
    def init(address, **_):
        time.sleep(0.1 if address == "slow:1" else 0)
        raise RuntimeError("no luck\nat all")

    ray = MagicMock(init=init, get=lambda _: init(0), is_initialized=lambda: False)
    ray.exceptions.RayError = RuntimeError
    for name in ("ray", "ray.util", "ray.util.scheduling_strategies"):
        monkeypatch.setitem(sys.modules, name, ray)
    for place, name in ((cluster, "refuse_dead_address"), (cluster, "refuse_open_cluster"), (private, "refuse_stale")):
        monkeypatch.setattr(place, name, lambda *_: None)
    monkeypatch.setattr(private, "_can_read_again", lambda: False)
    monkeypatch.setattr(cluster, "_START_SECONDS", 0.05)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return ray


def wait(is_alive):
    group = SimpleNamespace(idle=(), needs="2 CPU", free="1 CPU")
    own = {"_runs": {}, "_waiting": ["a task"], "_last_worker": -math.inf, "_group": group}
    RayDispatcher._refuse_endless_wait(SimpleNamespace(**own, _cluster=SimpleNamespace(is_alive=is_alive)))


@pytest.mark.parametrize(("call", "words"), [
    (lambda: RayCluster("here:1", None, 1), "cannot join the Ray cluster at 'here:1': no luck; give the address"),
    (lambda: RayCluster("slow:1", None, 1), r"at 'slow:1': Ray did not answer within 0\.05 s; give the address"),
    (lambda: RayCluster(None, 0, 1), r"Ray cannot start: no luck; its logs are in \S+; try again, or choose"),
    (refuse_stale, "this process has already imported Ray; run the search in a new process"),
    (lambda: RayCluster.run_on_others(SimpleNamespace(others="n"), len), "node .* does not answer: no luck; run `ray"),
    (lambda: wait(False), "dispatch: Ray has died on this machine"),
    (lambda: wait(True), "no worker could be started within 300 s: each worker needs 2 CPU, .* cluster has 1 CPU free"),
])  # fmt: skip
def test_a_ray_that_does_not_do_what_it_should_is_named_with_the_reason(ray, call, words):
    refuses(HpoError, words, call)


@pytest.mark.parametrize(("free", "words"), [(4096, "has 4,096 bytes free: make room"), (10**9, "hpo is installed")])
def test_workers_that_cannot_start_for_want_of_room_say_so(monkeypatch, ray, free, words):
    own = {"starting": {"answer": None}, "_num_failed_starts": 4, "shares": Shares(workers=2, gpus=0)}
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    refuses(DispatchError, words, WorkerGroup.add_started, SimpleNamespace(_ray=ray, **own), "answer")


@pytest.mark.nightly
def test_it_starts_behind_its_lock_where_ray_was_imported_before():
    """Ray reads its variables on import; a notebook imports it before us."""
    code = "import ray\nfrom hpo.workers.dispatch.ray.cluster import RayCluster\nRayCluster(None, 0, 1).close()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=REPOSITORY)


@pytest.mark.parametrize(("answer", "words"), [(None, r"within 0\.5 s"), (ANSWER, ": wrong token; give the address")])
def test_a_port_on_which_something_listens_that_is_no_ray_is_refused(monkeypatch, answer, words):
    if answer is not None:
        monkeypatch.setattr("hpo.workers.dispatch.ray.address._call_cluster", lambda *_: answer)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(DispatchError, match=words):
        refuse_dead_address(f"127.0.0.1:{server.getsockname()[1]}", seconds=0.5)


def test_what_a_dead_driver_left_is_deleted_and_what_a_living_one_has_is_not():
    gone = 2**22 + 1
    assert not psutil.pid_exists(gone)
    stale = Path(tempfile.mkdtemp(prefix=f"hpo-ray-{gone}-"))
    living = Path(tempfile.mkdtemp(prefix=f"hpo-ray-{os.getpid()}-"))
    try:
        cluster.remove_abandoned()
        assert not stale.exists()
        assert living.exists()
    finally:
        living.rmdir()


@pytest.mark.nightly
def test_a_server_of_ray_that_hangs_while_it_starts_is_given_up_and_its_logs_are_kept():
    driver, began = start("search", "objective=toys:score", *TOY, "dispatch.workers=1"), time.monotonic()
    hanging = when_logging(driver, "raylet")
    hanging.suspend()
    _, err = driver.communicate(timeout=MOST_SECONDS)
    (line,) = err.strip().splitlines()
    assert (driver.returncode, Path("runs/toy").exists()) == (1, False)
    assert time.monotonic() - began < MOST_SECONDS
    found = re.fullmatch(r"error: dispatch: Ray cannot start: .*; its logs are in (\S+); try again, or .*", line)
    assert found, line
    logs = Path(found[1])
    assert any(logs.rglob("raylet*"))
    assert not outliving([hanging], 10.0)
    shutil.rmtree(logs)


def when_logging(driver, server):
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
