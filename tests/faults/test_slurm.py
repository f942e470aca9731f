"""The script of `hpo cluster slurm`, run for real: stand-ins for Slurm's programs start two Ray nodes on this machine.

Each node has its own table of processes, since `ray stop` ends every Ray that it sees; the second does not know the
addresses of this machine, by which `ray symmetric-run` tells who is the head.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from hpo.workers.dispatch.ray.private import REACHED_FROM_OUTSIDE
from tests.faults.driver import hpo
from tests.guard.sitecustomize import MINE
from tests.studies import environment, rows

pytestmark = pytest.mark.nightly

UNSHARE = ("unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")
SBATCH = """#!/bin/bash
export SLURM_JOB_ID=4711 SLURM_JOB_NODELIST=two SLURM_JOB_NUM_NODES=2 SLURM_CPUS_PER_TASK=1
while true; do
  rm -f requeued
  bash "$1" & script=$!
  (until [ -e time_is_nearly_over ]; do sleep 0.1; done; rm time_is_nearly_over; kill -TERM "$script") &
  code=0
  while kill -0 "$script" 2> /dev/null; do code=0; wait "$script" || code=$?; done
  echo "the script ended with $code"
  [ -e requeued ] || exit "$code"
done
"""
SRUN = f"""#!/bin/bash
[ "$1 $2" = "--kill-on-bad-exit=1 --wait=30" ] || exit 2
shift 2
PYTHONPATH="$STAND_INS:$PYTHONPATH" {" ".join(UNSHARE)} "$@" & other=$!
"$@"
code=$?
kill -KILL "$other"
exit "$code"
"""
SCONTROL = """#!/bin/bash
if [ "$1" = requeue ]; then touch requeued; else echo "$HEAD"; fi
"""
NO_ADDRESSES = "import psutil\npsutil.net_if_addrs = dict\n"
STUDY = ("study.name=big", "study.trials=8", "training.epochs=6", "split.folds=1", "strategy=random", "track=none")


def an_address():
    """An address of this machine that is not the loopback one."""
    found = [one.address for name in psutil.net_if_addrs().values() for one in name if re.match(r"\d+\.", one.address)]
    others = [address for address in found if not address.startswith("127.")]
    return others[0] if others else pytest.skip("this machine has the loopback address only")


def test_two_nodes_a_stop_before_the_time_is_over_and_the_same_trials(tmp_path):
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("process namespaces are not permitted here")
    head = an_address()
    stand_ins = tmp_path / "stand_ins"
    stand_ins.mkdir()
    for name, text in {"sbatch": SBATCH, "srun": SRUN, "scontrol": SCONTROL}.items():
        (stand_ins / name).write_text(text)
        (stand_ins / name).chmod(0o755)
    (stand_ins / "sitecustomize.py").write_text(NO_ADDRESSES)
    asked = ("--nodes", "2", "--cpus", "1", "--memory", "4G", "--partition", "all", "--time", "01:00:00")
    code, out, err = hpo("cluster", "slurm", *asked, *STUDY)
    assert code == 0, out + err
    path = f"{stand_ins}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = environment() | {"PATH": path, "HEAD": head, "STAND_INS": str(stand_ins), MINE: head}
    # The tests keep Ray to the loopback address.
    own.pop(REACHED_FROM_OUTSIDE, None)
    with Path("out.txt").open("w") as told:
        job = subprocess.Popen([*UNSHARE, "sbatch", "big.sbatch"], env=own, stdout=told, stderr=told)
    try:
        deadline = time.monotonic() + 100
        while not re.search(r"^ *1/8 ", Path("out.txt").read_text(), re.MULTILINE):
            assert (time.monotonic() < deadline, job.poll()) == (True, None), Path("out.txt").read_text()
            time.sleep(0.1)
        (token,) = Path().glob(".hpo-job-*/token")
        assert (token.stat().st_mode & 0o077, token.parent.stat().st_mode & 0o077) == (0, 0)
        Path("time_is_nearly_over").touch()
        code = job.wait(200)
    finally:
        job.kill()
    said = Path("out.txt").read_text()
    assert (code, "SIGTERM: stopping" in said, "the script ended with 143" in said) == (0, True, True), said
    assert "2 workers" in said
    assert not list(Path().glob(".hpo-job-*"))
    here = [word for word in STUDY if not word.startswith("study.name")]
    code, out, err = hpo("search", *here, "study.name=here", "dispatch=local")
    assert code == 0, out + err
    assert rows(Path("runs/big/trials.csv")) == rows(Path("runs/here/trials.csv"))
