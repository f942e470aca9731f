"""A node, or one process of a group, is lost or told to end: its tasks continue elsewhere, or start again together."""

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from hpo.workers.dispatch.ray.pool import RayDispatcher
from hpo.workers.dispatch.ray.private import without_dashboard
from hpo.workers.training.tasks import Payload, Task
from tests.faults.driver import hpo, outliving, start
from tests.faults.test_workers import task
from tests.studies import REPOSITORY, dispatch_section, rows

RANKS = """
import os, time
from pathlib import Path

def run(task):
    rank, trial = os.environ["RANK"], task["trial"]
    me = Path(f"{trial}_{rank}_{len(list(Path().glob(f'{trial}_{rank}_*')))}")
    # Whole at once: the test reads it as soon as it is there.
    written = Path(f"writing_{rank}")
    written.write_text(str(os.getpid()))
    written.rename(me)
    # The first try waits, to be killed.
    while me.name.endswith("_0"):
        time.sleep(0.02)
    return {"score": 1.0, "world": int(os.environ["WORLD_SIZE"])}
"""


@pytest.mark.slow
def test_a_killed_process_takes_the_others_with_it_and_the_task_is_tried_again():
    Path("mine.py").write_text(RANKS)
    settings = dispatch_section(workers=1, processes_per_task=3, cpus_per_worker=0.3, retries=1)
    pool = RayDispatcher(settings, str(Path.cwd()))
    try:
        pool.submit(Task(0, 0, Payload("mine:run", {}, "score", processes=3)))
        deadline = time.monotonic() + 60
        while len(list(Path().glob("0_*_0"))) < 3:
            assert time.monotonic() < deadline
            pool.wait(0.1)
        first = [psutil.Process(int(path.read_text())) for path in sorted(Path().glob("0_*_0"))]
        os.kill(first[1].pid, signal.SIGKILL)
        outcome = None
        while outcome is None:
            outcome = next((report.outcome for report in pool.wait(1.0) if report.outcome), None)
        assert (outcome.error, outcome.attempt, outcome.metrics["world"]) == (None, 2, 3)
        assert outliving(first, 0) == []
        assert len(list(Path().glob("0_*"))) == 6
    finally:
        pool.close()


@pytest.mark.nightly
def test_a_search_of_two_processes_a_training_continues_in_the_middle_of_an_epoch_after_a_signal():
    search = ("search", "study.trials=2", "split.folds=1", "training.epochs=8", "training.batch_size=16")
    search += ("strategy=random", "track=none", "dispatch.workers=1", "dispatch.processes_per_task=2")
    search += ("dispatch.cpus_per_worker=0.5",)
    code, out, err = hpo(*search, "study.name=undisturbed")
    assert (code, "1 worker of 2 processes" in out) == (0, True), out + err
    driver = start(*search, "study.name=stopped")
    states = Path("runs/stopped/states")
    deadline = time.monotonic() + 100
    while not list(states.glob("*/state/last")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    driver.send_signal(signal.SIGTERM)
    _, err = driver.communicate(timeout=60)
    assert (driver.returncode, "hpo resume stopped" in err) == (128 + signal.SIGTERM, True), err
    progress = [json.loads((state / "training.json").read_text())["progress"] for state in states.glob("*/state/last")]
    # Between two evaluations.
    assert [each["loss_count"] > 0 for each in progress] == [True]
    code, out, err = hpo("resume", "stopped")
    assert code == 0, out + err
    assert rows(Path("runs/stopped/trials.csv")) == rows(Path("runs/undisturbed/trials.csv"))
    code, out, err = hpo("reproduce", "stopped")
    assert (code, "bitwise equal scores" in out, "reproduced: the training" in out) == (0, True, True), out + err


TASKS = 3
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


@pytest.fixture
def cluster():
    """A cluster of two nodes with one CPU each, both on this machine."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 10**8}
    with without_dashboard():
        made = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
        made.add_node(**node)
    yield made
    made.shutdown()


def pool_of(cluster, import_from):
    """Return a pool without retries: a lost node is no attempt."""
    settings = dispatch_section(workers=2, retries=0, address=cluster.address, allow_open_cluster=True)
    return RayDispatcher(settings, str(import_from))


@pytest.mark.slow
def test_tasks_of_a_lost_node_run_elsewhere_and_it_does_not_count(cluster, tmp_path):
    pool = pool_of(cluster, REPOSITORY)
    may_end = tmp_path / "may_end"
    try:
        for number in range(TASKS):
            pool.submit(task(number, "trains_until_it_may_end", config={"may_end": str(may_end)}))
        running, deadline = set(), time.monotonic() + 60
        while len(running) < 2:
            assert time.monotonic() < deadline, f"only {sorted(running)} run"
            running |= {report.task.trial for report in pool.wait(1.0) if report.point is not None}
        cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
        # Ray ends the processes of a lost node some moments later.
        time.sleep(2)
        may_end.touch()
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


@pytest.mark.nightly
def test_trainings_on_a_node_that_drains_go_on_elsewhere_and_no_step_is_trained_twice(cluster, tmp_path):
    import ray

    Path("mine.py").write_text(STEPS)
    pool = pool_of(cluster, tmp_path)
    try:
        for number in range(2):
            config, state = {"trained": str(tmp_path / f"trained_{number}")}, str(tmp_path / "states" / str(number))
            pool.submit(Task(number, 0, Payload("mine:steps", config, "score", trial=number, resume_dir=state)))
        for number in range(2):
            while not (tmp_path / f"trained_{number}").exists():
                pool.wait(0.2)
        there = next(each for each in ray.nodes() if each["NodeID"] != ray.get_runtime_context().get_node_id())
        client = ray._raylet.GcsClient(address=cluster.address)
        assert client.drain_node(there["NodeID"], 2, "the test takes it away", 0)[0]
        outcomes = {}
        while len(outcomes) < 2:
            outcomes |= {report.task.trial: report.outcome for report in pool.wait(0.5) if report.outcome}
    finally:
        pool.close()
    assert [outcomes[number].error for number in range(2)] == [None, None]
    # One of them was started again.
    assert sorted(outcome.attempt for outcome in outcomes.values()) == [1, 2]
    for number in range(2):
        assert (tmp_path / f"trained_{number}").read_text().split() == [str(step) for step in range(40)]
