"""A notice to end: trainings save their states at the next step, and go on from there, here later or elsewhere now."""

import json
import signal
import time
from pathlib import Path

import pytest

from hpo.workers.dispatch.ray.pool import RayDispatcher
from hpo.workers.dispatch.ray.private import without_dashboard
from hpo.workers.training.tasks import Payload, Task
from tests.faults.driver import hpo, start
from tests.studies import dispatch_section, rows

pytestmark = pytest.mark.nightly

STEPS = """
import json, signal, time
from pathlib import Path

CONTINUES = True

def steps(task):
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    state = Path(task["resume_dir"]) / "state.json"
    done = json.loads(state.read_text()) if state.exists() else 0
    for step in range(done, 40):
        time.sleep(0.1)
        with Path(task["config"]["trained"]).open("a") as file:
            file.write(f"{step}\\n")
        if told:
            state.parent.mkdir(parents=True, exist_ok=True)
            state.write_text(json.dumps(step + 1))
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)
    return {"score": 1.0}
"""
DIGITS = (
    "study.trials=2",
    "split.folds=1",
    "training.epochs=8",
    "training.batch_size=16",
    "strategy=random",
    "track=none",
)


def test_a_search_of_two_processes_a_training_that_is_told_to_end_goes_on_in_the_midst_of_an_epoch():
    settings = ("dispatch.workers=1", "dispatch.processes_per_task=2", "dispatch.cpus_per_worker=0.5")
    code, out, err = hpo("search", *DIGITS, *settings, "study.name=undisturbed")
    assert code == 0, out + err
    assert "1 worker of 2 processes" in out
    driver = start("search", *DIGITS, *settings, "study.name=told")
    states = Path("runs/told/states")
    deadline = time.monotonic() + 100
    while not list(states.glob("*/state/last")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    driver.send_signal(signal.SIGTERM)
    _, err = driver.communicate(timeout=60)
    assert driver.returncode == 128 + signal.SIGTERM, err
    assert "hpo resume told" in err
    progress = [json.loads((state / "training.json").read_text())["progress"] for state in states.glob("*/state/last")]
    # Between two evaluations.
    assert [each["loss_count"] > 0 for each in progress] == [True]
    code, out, err = hpo("resume", "told")
    assert code == 0, out + err
    assert rows(Path("runs/told/trials.csv")) == rows(Path("runs/undisturbed/trials.csv"))
    code, out, err = hpo("reproduce", "told")
    assert (code, "bitwise equal scores" in out, "reproduced: the training" in out) == (0, True, True), out + err


def test_trainings_on_a_node_that_drains_go_on_elsewhere_and_no_step_is_trained_twice(tmp_path):
    import ray
    from ray.cluster_utils import Cluster

    Path("mine.py").write_text(STEPS)
    node = {"num_cpus": 1, "object_store_memory": 10**8}
    with without_dashboard():
        cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
        cluster.add_node(**node)
    settings = dispatch_section(workers=2, retries=0, address=cluster.address, allow_open_cluster=True)
    pool = RayDispatcher(settings, str(Path.cwd()))
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
        cluster.shutdown()
    assert [outcomes[number].error for number in range(2)] == [None, None]
    # One of them was started again.
    assert sorted(outcome.attempt for outcome in outcomes.values()) == [1, 2]
    for number in range(2):
        assert (tmp_path / f"trained_{number}").read_text().split() == [str(step) for step in range(40)]
