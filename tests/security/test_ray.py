"""Ray lets no one in: what we start listens on the loopback address and asks for a token; open clusters are refused."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from hpo.errors import DispatchError
from hpo.workers.dispatch.dispatcher import Setup, make_dispatcher
from hpo.workers.dispatch.ray.cluster import RayCluster
from hpo.workers.dispatch.ray.private import without_dashboard
from tests.studies import REPOSITORY, dispatch_section

pytestmark = pytest.mark.slow
# What a stranger on this machine would do: ask the cluster at an address for a value.
ASK = """
import sys
from ray._raylet import GcsClient
print(GcsClient(address=sys.argv[1]).internal_kv_get(b"any", b"thing", timeout=5))
"""
ELSEWHERE = {"RAY_ADDRESS": "127.0.0.1:1", "RAY_AUTH_TOKEN": "f" * 64}


@pytest.fixture(scope="module")
def cluster():
    """Start Ray as a search does, although the user's shell names another cluster; return its address."""
    with pytest.MonkeyPatch.context() as shell:
        for name, value in ELSEWHERE.items():
            shell.setenv(name, value)
        cluster = RayCluster(None, 0, 1)
        import ray

        yield ray.get_runtime_context().gcs_address
        cluster.close()
        assert ELSEWHERE.items() <= os.environ.items()


def without(prefix):
    return {name: value for name, value in os.environ.items() if not name.startswith(prefix)}


def run(script, *arguments, env):
    options = {"capture_output": True, "text": True, "timeout": 120, "cwd": REPOSITORY}
    return subprocess.run([sys.executable, "-c", script, *arguments], env=env, check=False, **options)


def test_a_cluster_that_the_environment_names_is_not_joined(cluster):
    assert cluster.startswith("127.0.0.1:")
    assert cluster != ELSEWHERE["RAY_ADDRESS"]
    assert os.environ.get("RAY_ADDRESS") is None


def test_a_stranger_without_a_token_or_with_a_wrong_one_is_refused(cluster):
    token, nameless = Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text(), without("RAY_AUTH")
    none = run(ASK, cluster, env=nameless | {"RAY_AUTH_MODE": "disabled", "HOME": os.devnull})
    wrong = run(ASK, cluster, env=nameless | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * len(token)})
    right = run(ASK, cluster, env=nameless | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token})
    assert (none.returncode, wrong.returncode, right.returncode) == (1, 1, 0)
    assert "Authentication" in none.stderr
    assert "Authentication" in wrong.stderr


def test_everything_that_listens_is_on_the_loopback_address(cluster):
    me = psutil.Process()
    connections = [c for p in (me, *me.children(recursive=True)) for c in p.net_connections("inet")]
    listening = {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_the_token_and_the_session_are_for_this_user_alone(cluster):
    import ray

    token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    assert (stat.S_IMODE(token.stat().st_mode), stat.S_IMODE(token.parent.stat().st_mode)) == (0o600, 0o700)
    assert Path(ray._private.worker._global_node.get_session_dir_path()).is_relative_to(token.parent)


def test_there_is_no_dashboard_and_no_telemetry(cluster):
    processes = psutil.Process().children(recursive=True)
    # Its process asks cloud providers what machine this is, even without pages and with statistics off.
    assert not [process for process in processes if any(part.endswith("dashboard.py") for part in process.cmdline())]
    servers = [process for process in processes if process.name() in ("gcs_server", "raylet")]
    assert {process.environ().get("RAY_USAGE_STATS_ENABLED") for process in servers} == {"0"}


def test_an_open_cluster_is_refused_with_the_flag_that_allows_it(monkeypatch):
    """As `ray start` makes one, without a token; `tests/faults/test_lost_nodes.py` joins one with the flag."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with without_dashboard():
        opened = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    with pytest.raises(DispatchError, match=r"asks for no token.*dispatch\.allow_open_cluster=true"):
        make_dispatcher(Setup(settings=dispatch_section(address=opened.address, workers=1)))
    opened.shutdown()
