"""Ray lets no one in: what we start listens on the loopback address and asks for a token; open clusters are refused."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from hpo.errors import DispatchError
from hpo.workers.dispatch.dispatcher import make_dispatcher
from hpo.workers.dispatch.ray.cluster import RayCluster
from tests.studies import REPOSITORY, dispatch_section

OPENLY = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# What a stranger on this machine would do: ask the cluster at an address for a value.
ASK = """
import sys
from ray._raylet import GcsClient
print(GcsClient(address=sys.argv[1]).internal_kv_get(b"any", b"thing", timeout=5))
"""
# A cluster as `ray start` makes one: without a token, reached at its own address. It lives until its input ends.
OPEN = """
import sys, ray
from hpo.workers.dispatch.ray.private import without_dashboard
with without_dashboard():
  ray.init(address="local", num_cpus=1, include_dashboard=False, logging_level="ERROR", _temp_dir=sys.argv[1])
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cluster():
    cluster = RayCluster(None, 0, 1)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def address(cluster):
    import ray

    return ray.get_runtime_context().gcs_address


@pytest.fixture(scope="module")
def open_cluster(tmp_path_factory):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    folder = tmp_path_factory.mktemp("r")
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment | OPENLY,
    )
    yield process.stdout.readline().strip()
    process.stdin.close()
    process.stdout.close()
    process.wait(60)


def ask(address, **environment):
    nameless = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    return subprocess.run(
        [sys.executable, "-c", ASK, address],
        env=nameless | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_whoever_has_no_token_or_a_wrong_one_is_refused(cluster, address):
    token = Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text()
    without = ask(address, RAY_AUTH_MODE="disabled", HOME=os.devnull)
    wrong = ask(address, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="0" * len(token))
    right = ask(address, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token)
    assert (without.returncode, wrong.returncode, right.returncode) == (1, 1, 0)
    assert "Authentication" in without.stderr
    assert "Authentication" in wrong.stderr


@pytest.mark.slow
def test_everything_that_listens_is_on_the_loopback_address(cluster):
    me = psutil.Process()
    listening = {
        connection.laddr.ip
        for process in (me, *me.children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


@pytest.mark.slow
def test_the_token_and_the_session_are_for_this_user_alone(cluster):
    token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert stat.S_IMODE(token.parent.stat().st_mode) == 0o700
    import ray

    session = Path(ray._private.worker._global_node.get_session_dir_path())
    assert session.is_relative_to(token.parent)


@pytest.mark.slow
def test_there_is_no_dashboard_and_no_telemetry(cluster):
    processes = psutil.Process().children(recursive=True)
    # Its process asks cloud providers what machine this is, even without pages and with statistics off.
    assert not [process for process in processes if any(part.endswith("dashboard.py") for part in process.cmdline())]
    servers = [process for process in processes if process.name() in ("gcs_server", "raylet")]
    assert servers
    assert {process.environ().get("RAY_USAGE_STATS_ENABLED") for process in servers} == {"0"}


@pytest.mark.nightly
def test_a_cluster_that_the_environment_names_is_not_attached_to(open_cluster):
    """RAY_ADDRESS and RAY_AUTH_TOKEN of the user's shell decide nothing."""
    script = """
import json, os
from hpo.workers.dispatch.ray.cluster import RayCluster
cluster = RayCluster(None, 0, 1)
import ray
print(json.dumps([ray.get_runtime_context().gcs_address, os.environ.get("RAY_ADDRESS"), ray.nodes()[0]["Alive"]]))
cluster.close()
print(json.dumps(os.environ["RAY_ADDRESS"]))
"""
    environment = {"RAY_ADDRESS": open_cluster, "RAY_AUTH_TOKEN": "f" * 64}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=REPOSITORY,
    )
    inside, after = map(json.loads, done.stdout.splitlines()[-2:])
    assert inside[0].startswith("127.0.0.1:")
    assert inside[0] != open_cluster
    assert inside[1:] == [None, True]
    assert after == open_cluster


@pytest.mark.slow
def test_an_open_cluster_is_joined_only_when_its_flag_is_given(open_cluster):
    with pytest.raises(DispatchError, match=r"asks for no token.*dispatch\.allow_open_cluster=true"):
        make_dispatcher(dispatch_section(address=open_cluster, workers=1))
    script = f"""
from hpo.workers.dispatch.dispatcher import make_dispatcher
from tests.studies import dispatch_section
dispatcher = make_dispatcher(dispatch_section(address={open_cluster!r}, workers=1, allow_open_cluster=True))
print(dispatcher.slots)
dispatcher.close()
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | OPENLY,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=REPOSITORY,
    )
    assert done.stdout.split()[-1] == "1"


@pytest.mark.slow
@pytest.mark.parametrize("address", ["auto", "ray://127.0.0.1:10001"])
def test_an_address_that_cannot_be_looked_at_is_refused(address):
    began = time.monotonic()
    with pytest.raises(DispatchError, match="must be host:port"):
        make_dispatcher(dispatch_section(address=address))
    assert time.monotonic() - began < 30
