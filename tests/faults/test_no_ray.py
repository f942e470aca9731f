"""Ray cannot start, or is not where it should be: one line, with the logs where there are some, within a minute."""

import os
import re
import shutil
import socket
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from hpo.errors import DispatchError
from hpo.workers.dispatch.ray import address as ray_address
from hpo.workers.dispatch.ray import cluster as ray_cluster
from hpo.workers.dispatch.ray.address import refuse_dead_address
from tests.faults.driver import TOY, outliving, start, wait_for_file
from tests.faults.mlflow_server import free_port

MOST_SECONDS = 60.0
SEARCH = ("search", "objective=tests.toy:score", *TOY, "dispatch.workers=1")


@pytest.fixture
def listener():
    """A port that something listens on which is no Ray and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_nothing_at_the_address_is_refused_at_once(monkeypatch):
    """Ray, which takes seconds to answer, is not asked."""
    monkeypatch.delattr(ray_address, "_call_cluster")
    with pytest.raises(DispatchError, match=r"dispatch\.address: no Ray cluster is at .*refused; give the address"):
        refuse_dead_address(f"127.0.0.1:{free_port()}")


@pytest.mark.slow
def test_a_port_that_something_else_took_is_refused(listener):
    with pytest.raises(DispatchError, match=r"does not answer as a Ray cluster within 1\.5 s"):
        refuse_dead_address(listener, seconds=1.5)


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


def refused(driver):
    """Assert that the driver refuses with one line within a minute and leaves nothing behind; return the line."""
    _, err = driver.communicate(timeout=MOST_SECONDS)
    (line,) = err.strip().splitlines()
    assert driver.returncode == 2
    assert not Path("runs/toy").exists()
    return line


@pytest.mark.nightly
def test_a_server_of_ray_that_hangs_while_it_starts_is_given_up_and_its_logs_are_kept():
    """The server is stopped by a signal once it has opened a log."""
    driver = start(*SEARCH)
    began = time.monotonic()
    hanging = when_logging(driver, "raylet")
    hanging.suspend()
    line = refused(driver)
    assert time.monotonic() - began < MOST_SECONDS
    found = re.fullmatch(
        r"error: dispatch: Ray cannot start: .*; its logs are in (\S+); try again, or choose dispatch=local", line
    )
    assert found, line
    kept = Path(found[1])
    assert any(kept.rglob("raylet*"))
    assert not outliving([hanging], 10.0)
    shutil.rmtree(kept)


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
def test_a_raylet_that_is_killed_is_told_within_half_a_minute():
    driver = start("search", "objective=tests.faults.objectives:sleeps", *TOY, "dispatch.workers=2")
    wait_for_file("sleeps")
    servers = psutil.Process(driver.pid).children(recursive=True)
    (raylet,) = (process for process in servers if process.name() == "raylet")
    began = time.monotonic()
    raylet.kill()
    _, err = driver.communicate(timeout=MOST_SECONDS)
    assert time.monotonic() - began < 30
    assert driver.returncode == 1
    last = err.strip().splitlines()[-1]
    assert last.startswith("error: dispatch: the Ray that was started here has died")
    assert "hpo resume toy" in last
