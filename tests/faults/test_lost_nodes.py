"""A node, or one process of a group, is lost or told to end: its tasks continue elsewhere, or start again together."""

import time
from pathlib import Path

import psutil
import pytest

from hpo.workers.dispatch.dispatcher import Setup, make_dispatcher
from hpo.workers.dispatch.ray.private import without_dashboard
from hpo.workers.training.tasks import Payload, Task
from tests.contracts.test_dispatchers import run
from tests.faults.driver import outliving
from tests.faults.test_workers import task
from tests.studies import dispatch_section

# Of the first try one process dies, and the others wait.
RANKS = """
import os, signal, time
from pathlib import Path
def run(task):
    me = Path(f"{os.environ['RANK']}_{len(list(Path().glob(os.environ['RANK'] + '_*')))}")
    me.write_text(str(os.getpid()))
    while me.name.endswith("_0"):
        time.sleep(0.02)
        if me.name == "1_0" and len(list(Path().glob("*_0"))) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    return {"score": 1.0, "world": int(os.environ["WORLD_SIZE"])}
"""
STEPS = """
import json, signal, time
from pathlib import Path
CONTINUES = True
def steps(task):
    signals = []
    signal.signal(signal.SIGTERM, lambda *_: signals.append(True))
    state = Path(task["resume_dir"]) / "state.json"
    done = json.loads(state.read_text()) if state.exists() else 0
    for step in range(done, 40):
        time.sleep(0.1)
        with Path(task["config"]["trained"]).open("a") as file:
            file.write(f"{step}\\n")
        if signals:
            state.parent.mkdir(parents=True, exist_ok=True)
            state.write_text(json.dumps(step + 1))
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)
    return {"score": 1.0}
"""


@pytest.mark.nightly
def test_a_killed_process_takes_the_others_with_it_and_the_task_is_tried_again():
    Path("mine.py").write_text(RANKS)
    settings = dispatch_section(workers=1, processes_per_task=3, cpus_per_worker=0.3, retries=1)
    pool = make_dispatcher(Setup(settings=settings))
    try:
        outcomes, _ = run(pool, [Task(0, 0, Payload("mine:run", {}, "score", processes=3))])
        assert (outcomes[0].error, outcomes[0].attempt, outcomes[0].metrics["world"]) == (None, 2, 3)
        first = [int(path.read_text()) for path in Path().glob("*_0")]
        assert outliving([psutil.Process(number) for number in first if psutil.pid_exists(number)], 5.0) == []
        assert len(list(Path().glob("?_?"))) == 6
    finally:
        pool.close()


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 10**8}
    with without_dashboard():
        made = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
        made.add_node(**node)
    yield made
    made.shutdown()


@pytest.fixture
def pool(cluster):
    """Return a pool without retries: a lost node is no attempt."""
    Path("mine.py").write_text(STEPS)
    settings = dispatch_section(workers=2, retries=0, address=cluster.address, allow_open_cluster=True)
    pool = make_dispatcher(Setup(settings=settings))
    yield pool
    pool.close()


def until(pool, number, is_there):
    """Wait until there was such a report of so many trials; return the last of each."""
    found, deadline = {}, time.monotonic() + 120
    while len(found) < number:
        assert time.monotonic() < deadline, f"only {sorted(found)} came"
        found |= {report.task.trial: report for report in pool.wait(0.5) if is_there(report)}
    return found


def attempts(pool, number):
    ended = until(pool, number, lambda report: report.outcome is not None)
    assert all(report.outcome.error is None for report in ended.values())
    return sorted(report.outcome.attempt for report in ended.values())


@pytest.mark.slow
def test_tasks_of_a_lost_node_run_elsewhere_and_it_does_not_count(cluster, pool):
    may_end = Path("may_end").absolute()
    for number in range(3):
        pool.submit(task(number, "trains_until_it_may_end", config={"may_end": str(may_end)}))
    until(pool, 2, lambda report: report.point is not None)
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    # Ray ends the processes of a lost node some moments later.
    time.sleep(2)
    may_end.touch()
    assert attempts(pool, 3) == [1, 1, 2]


@pytest.mark.nightly
def test_trainings_on_a_node_that_drains_go_on_elsewhere_and_no_step_is_trained_twice(cluster, pool, tmp_path):
    import ray

    trained = [tmp_path / f"trained_{number}" for number in range(2)]
    for number in range(2):
        config, state = {"trained": str(trained[number])}, str(tmp_path / "states" / str(number))
        pool.submit(Task(number, 0, Payload("mine:steps", config, "score", trial=number, resume_dir=state)))
    while not all(path.exists() for path in trained):
        pool.wait(0.2)
    there = next(each for each in ray.nodes() if each["NodeID"] != ray.get_runtime_context().get_node_id())
    assert ray._raylet.GcsClient(address=cluster.address).drain_node(there["NodeID"], 2, "the test takes it away", 0)[0]
    assert attempts(pool, 2) == [1, 2]
    for path in trained:
        assert path.read_text().split() == [str(step) for step in range(40)]
