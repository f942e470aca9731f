"""What the Ray pool promises beyond the contract: shared GPUs, refusals, a lock. Dying workers: tests/faults."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from hpo.errors import DispatchError
from hpo.workers.dispatch.other_searches import Use
from hpo.workers.dispatch.ray.pool import RayDispatcher
from hpo.workers.dispatch.ray.shares import Shares
from hpo.workers.dispatch.ray.worker_group import WorkerGroup
from tests.contracts.test_dispatchers import run, task
from tests.studies import REPOSITORY, dispatch_section


def started(**changes):
    return RayDispatcher(dispatch_section(**changes), str(REPOSITORY))


@pytest.mark.slow("0.5-gpus0")
@pytest.mark.nightly
@pytest.mark.parametrize(("share", "gpus"), [(0.5, {0}), (1, {0, 1})])
def test_two_half_gpu_workers_share_one_and_each_whole_gpu_worker_has_its_own(tmp_path, share, gpus):
    """Ray is told of two GPUs that are not there; only its bookkeeping is under test."""
    pool = started(workers=2, gpus=2, gpus_per_worker=share)
    try:
        outcomes, points = run(pool, [task(n, "visible_gpus", folder=str(tmp_path)) for n in (0, 1)])
    finally:
        pool.close()
    assert points[0][0]["process"] != points[1][0]["process"]
    assert {outcome.metrics["gpu"] for outcome in outcomes.values()} == gpus
    assert outcomes[0].metrics["num_gpus"] == 1
    assert outcomes[0].metrics["memory"] == share


@pytest.mark.slow
def test_next_to_another_search_the_workers_left_have_the_gpus_left(tmp_path):
    """Of two GPUs, that are not there either, another search has the first."""
    settings = dispatch_section(workers=None, gpus=2, cpus_per_worker=0.1)
    pool = RayDispatcher(settings, str(REPOSITORY), in_use=Use(0.0, 1.0, (0,)))
    try:
        assert (pool.slots, pool.gpus.numbers) == (1, (1,))
        (tmp_path / "another").touch()
        outcomes, _ = run(pool, [task(0, "visible_gpus", folder=str(tmp_path))])
    finally:
        pool.close()
    assert outcomes[0].metrics["gpu"] == 1
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"workers": 3, "cpus_per_worker": 0.1, "gpus": 2, "gpus_per_worker": 1.0},
            "3 worker.* GPU need 3, but there are 2",
        ),
        ({"gpus": 0, "gpus_per_worker": 1}, "GPU need 1, but there are 0"),
    ],
)
def test_more_than_there_is_is_refused(changes, words):
    with pytest.raises(DispatchError, match=words):
        started(**changes)


@pytest.mark.parametrize(
    ("free", "words"), [(4096, r"has 4,096 bytes free: make room there, or set TMPDIR"), (10**9, "is hpo installed")]
)
def test_workers_that_cannot_start_for_want_of_room_say_so(monkeypatch, free, words):
    """Ray says of neither more than that the worker died."""

    class NotStartedError(Exception):
        pass

    def get(_answer):
        raise NotStartedError

    group = WorkerGroup.__new__(WorkerGroup)
    group._ray = SimpleNamespace(get=get, exceptions=SimpleNamespace(RayError=NotStartedError))
    group.starting, group._num_failed_starts, group.shares = {"answer": None}, 4, Shares(workers=2, gpus=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(DispatchError, match=words):
        group.add_started("answer")


@pytest.mark.nightly
def test_it_starts_behind_its_lock_where_ray_was_imported_before():
    """Ray reads its variables on import; a notebook imports it before us."""
    code = (
        "import ray\n"
        "from hpo.workers.dispatch.ray.cluster import RayCluster\n"
        "for _ in range(2):\n"
        "    cluster = RayCluster(None, 0, 1)\n"
        "    assert cluster.nodes[0].cpus >= 1\n"
        "    cluster.close()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=REPOSITORY)
