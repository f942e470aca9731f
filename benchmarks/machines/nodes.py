"""A Ray cluster on this machine whose nodes, but the driver's, see nothing of the driver's folder."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpo.workers.dispatch.ray.private import without_dashboard

# One more node for the cluster at an address, until it is killed.
NODE = """
import json, signal, sys, types
from ray.cluster_utils import Cluster
cluster = Cluster()
cluster.head_node, cluster.redis_address = types.SimpleNamespace(gcs_address=sys.argv[1]), sys.argv[1]
cluster.add_node(wait=False, **json.loads(sys.argv[2]))
signal.pause()
"""
BLINDFOLD = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


@contextlib.contextmanager
def cluster(scratch: Path, others: int, **node: Any) -> Iterator[str]:
    """Start the driver's node and others, which see nothing in scratch/driver; give the cluster's address."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_TMPDIR"] = str(scratch)
    with without_dashboard():
        head = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    started = []
    try:
        for number in range(others):
            started.append(start_blind(head.address, scratch, number, node))
            # One after the other, or they take the same ports.
            deadline = time.monotonic() + 60
            while sum(one["Alive"] for one in head.global_state.node_table()) < number + 2:
                if time.monotonic() > deadline:
                    raise SystemExit(f"node {number} has not joined: {log_of(scratch, number).read_text()}")
                time.sleep(0.2)
        yield head.address
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        head.shutdown()


def start_blind(address: str, scratch: Path, number: int, node: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Start a node that has a folder of its own where the driver's is; it keeps there what it is sent."""
    place, hidden = scratch / f"node{number}", scratch / "driver"
    place.mkdir()
    blind = ["unshare", "--map-root-user", "--mount", "sh", "-c", BLINDFOLD, "-", str(place), str(hidden)]
    with log_of(scratch, number).open("w") as log:
        return subprocess.Popen(
            [*blind, sys.executable, "-c", NODE, address, json.dumps(node)],
            env=os.environ | {"TMPDIR": str(hidden)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def log_of(scratch: Path, number: int) -> Path:
    """Return the file that has what a node printed."""
    return scratch / f"node{number}.log"
