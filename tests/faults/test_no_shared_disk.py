"""Three nodes, two of which see nothing of the driver's disk: the same trials, models and states as on one machine."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from hpo.workers.dispatch.ray.private import without_dashboard
from tests.faults.driver import start
from tests.studies import rows

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
UNSHARE, NODE = ("unshare", "--map-root-user", "--mount"), {"num_cpus": 1, "object_store_memory": 10**8}
# One more node for the cluster at an address, until it is killed.
BLIND_NODE = f"""
import signal, sys, types
from ray.cluster_utils import Cluster
cluster = Cluster()
cluster.head_node, cluster.redis_address = types.SimpleNamespace(gcs_address=sys.argv[1]), sys.argv[1]
cluster.add_node(wait=False, **{NODE})
signal.pause()
"""
MINE = """
import json, os, time
CONTINUES = True
def run(config, trial):
    state, done = trial.resume_dir and trial.resume_dir / "state.json", 0
    if state and state.exists():
        done = json.loads(state.read_text())
    print("from", done, "to", trial.amount)
    for epoch in range(done + 1, (trial.amount or 4) + 1):
        time.sleep(float(os.environ.get("SECONDS", 0)))
        if state:
            trial.resume_dir.mkdir(parents=True, exist_ok=True)
            state.write_text(json.dumps(epoch))
        trial.report(epoch=epoch, score=config["lr"] * epoch)
    return {"score": config["lr"] * (trial.amount or 4)}
"""
OF_MINE = (
    *("objective='mine:run(config, trial)'", "+lr=0.1", "space=none", "+space.lr={low: 1e-4, high: 1.0, log: true}"),
    *("study.metric=score", "study.trials=12", "track=none", "report.figures=false"),
)
HALVING = (*OF_MINE, "study.name=halving", "strategy=asha", "strategy.max_amount=4", "strategy.eta=2")


def blind_node(address, place, hidden):
    """Start a node whose processes see the folder `place` where `hidden` is, with the driver's files."""
    blindfold = 'mount --bind "$1" "$2" && cd / && shift 2 && exec "$@"'
    command = [*UNSHARE, "sh", "-c", blindfold, "-", place, hidden, sys.executable, "-c", BLIND_NODE, address]
    # Ray's own folder is the same on all nodes of one machine.
    own = os.environ | {"TMPDIR": str(hidden), "RAY_TMPDIR": tempfile.gettempdir()}
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    return subprocess.Popen(command, env=own, **silent)


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Return the arguments that join a cluster, the processes of the nodes that are not the driver's, and a wait."""
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mount namespaces are not permitted here")
    from ray.cluster_utils import Cluster

    with without_dashboard():
        cluster = Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
    others = []

    def wait_for(number):
        deadline = time.monotonic() + 60
        while sum(node["Alive"] for node in cluster.global_state.node_table()) != number:
            assert time.monotonic() < deadline, f"there are not {number} nodes"
            time.sleep(0.2)

    try:
        for number in range(2):
            place = tmp_path_factory.mktemp(f"node{number}")
            others.append(blind_node(cluster.address, place, tmp_path_factory.getbasetemp()))
            # One after the other, or they take the same ports.
            wait_for(number + 2)
        yield (f"dispatch.address='{cluster.address}'", "dispatch.allow_open_cluster=true"), others, wait_for
    finally:
        for process in others:
            end(process)
        cluster.shutdown()


@pytest.fixture(autouse=True)
def module_of_the_users(tmp_path):
    Path("mine.py").write_text(MINE)


def ended(driver, code=0):
    out, err = driver.communicate(timeout=200)
    assert driver.returncode == code, out + err
    return out + err


def assert_is_as_in_one_process():
    ended(start("search", *HALVING, "study.name=here", "dispatch=local"))
    assert rows(Path("runs/halving/trials.csv")) == rows(Path("runs/here/trials.csv"))
    assert "from 1 to 2" in {path.read_text().strip() for path in Path("runs/halving/logs").iterdir()}


@pytest.mark.nightly
def test_halving_goes_on_from_states_on_whichever_node(nodes):
    where, _, _ = nodes
    ended(start("search", *HALVING, *where))
    assert_is_as_in_one_process()


@pytest.mark.nightly
def test_a_module_that_a_node_cannot_import_is_named_with_the_node_and_the_budget_is_kept(nodes):
    where, _, _ = nodes
    slow = MINE.replace('os.environ.get("SECONDS", 0)', "0.3")  # or the driver's node trains all before others begin
    Path("mine.py").write_text(f"from pathlib import Path\nPath({str(Path('mine.py').absolute())!r}).stat()\n{slow}")
    output = ended(start("search", *OF_MINE, "study.name=missing", *where), code=1)
    assert re.search(r"cannot import 'mine'|importing 'mine' raised FileNotFoundError.*\(node .+\)", output), output
    assert "hpo resume missing" in output


@pytest.mark.nightly
def test_a_search_whose_node_is_lost_and_whose_driver_is_killed_has_the_same_trials_from_states_elsewhere(nodes):
    """The last test of the file: afterwards a node is missing."""
    where, others, wait_for = nodes
    artifacts, slowly = f"study.artifacts=file://{tempfile.mkdtemp()}", "+dispatch.environment.env_vars.SECONDS='0.2'"
    driver = start("search", *HALVING, *where, artifacts, slowly)
    for line in driver.stdout:
        if re.match(r" *3/12 ", line):
            end(others[-1])
        if re.match(r" *6/12 ", line):
            break
    driver.kill()
    driver.communicate()
    wait_for(2)
    ended(start("resume", "halving", *where))
    assert not Path("runs/halving/states").exists()
    assert_is_as_in_one_process()
