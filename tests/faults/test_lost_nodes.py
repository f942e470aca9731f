"""A node of a cluster is lost without a word: its tasks run elsewhere, and that is no failure of theirs."""

import time
from dataclasses import replace

import pytest

from hpo.workers.dispatch.ray.pool import RayDispatcher
from hpo.workers.dispatch.ray.private import without_dashboard
from hpo.workers.training.tasks import Task
from tests.contracts.test_dispatchers import task as toy_task
from tests.studies import REPOSITORY, dispatch_section

TASKS = 6


def task(number):
    payload = replace(toy_task(number, "constant").payload, objective="tests.faults.objectives:napping")
    return Task(number, 0, payload)


@pytest.fixture
def cluster():
    """A cluster of three nodes with one CPU each, all of them on this machine."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 10**8}
    with without_dashboard():
        made = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
        for _ in range(2):
            made.add_node(**node)
    yield made
    made.shutdown()


@pytest.mark.slow
def test_tasks_of_a_lost_node_run_elsewhere_and_it_does_not_count(cluster):
    """With no retries at all, and one worker less for good."""
    settings = dispatch_section(workers=3, retries=0, address=cluster.address, allow_open_cluster=True)
    pool = RayDispatcher(settings, str(REPOSITORY))
    try:
        for number in range(TASKS):
            pool.submit(task(number))
        running, deadline = set(), time.monotonic() + 60
        while len(running) < 3:
            assert time.monotonic() < deadline, f"only {sorted(running)} run"
            running |= {report.task.trial for report in pool.wait(1.0) if report.point is not None}
        cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
        outcomes, deadline = {}, time.monotonic() + 120
        while len(outcomes) < TASKS:
            assert time.monotonic() < deadline, f"only {sorted(outcomes)} came back"
            for report in pool.wait(1.0):
                if report.outcome is not None:
                    assert report.task.trial not in outcomes
                    outcomes[report.task.trial] = report.outcome
    finally:
        pool.close()
    assert all(outcome.error is None for outcome in outcomes.values())
    # Only the one that ran there was started twice.
    assert sorted(outcome.attempt for outcome in outcomes.values()) == [1] * (TASKS - 1) + [2]
