"""`hpo cluster`: its files are valid, have what was given, and run; placeholders name what is missing."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import psutil
import pytest
import yaml

from hpo.integrations.clusters import Job
from hpo.workers.dispatch.ray.private import REACHED_FROM_OUTSIDE
from tests.guard.sitecustomize import MINE
from tests.hpo.cli.commands import prints, refused
from tests.studies import REPOSITORY, environment, rows

ASKED, PODS = ("--cpus", "1", "study.name=big"), ("--nodes", "2", "--memory", "4G")
OF_SLURM = (*PODS, "--partition", "all", "--time", "01:00:00")
MIRRORED = ("space.training.lr={low: 1e-5, high: 1e-2, log: true}", "study.mirror=s3://bucket/hpo")


def written(capsys, *arguments):
    out = prints(capsys, "cluster", *arguments)
    return Path(out.partition("wrote ")[2].splitlines()[0]), out


@pytest.mark.parametrize("kind", [("slurm", *OF_SLURM), ("local", "--hosts", "ann,bob")])
@pytest.mark.parametrize("overrides", [(), MIRRORED])
def test_scripts_pass_shellcheck(capsys, kind, overrides):
    path, _ = written(capsys, *kind, *ASKED, *overrides)
    found = subprocess.run([Path(sys.executable).with_name("shellcheck"), path], capture_output=True, check=False)
    assert (found.returncode, found.stdout) == (0, b"")
    assert all(words in path.read_text() for words in ("hpo search", *map(shlex.quote, overrides)))


@pytest.mark.parametrize("overrides", [(), MIRRORED])
def test_the_job_of_kubernetes_is_one_of_kuberay(capsys, overrides):
    path, _ = written(capsys, "kubernetes", *ASKED, *PODS, "--gpus", "2", "--image", "me/hpo:1", *overrides)
    job = yaml.safe_load(path.read_text())
    jsonschema.validate(job, json.loads((Path(__file__).parent / "rayjob_schema.json").read_text()))
    spec = job["spec"]
    pod = spec["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    assert pod["resources"]["limits"] == {"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "2"}
    assert spec["rayClusterSpec"]["authOptions"] == {"mode": "token"}
    checked = subprocess.run(["bash", "-n", "-c", spec["entrypoint"]], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert ("hpo resume" in spec["entrypoint"]) == bool(overrides)
    # Only in this mode the entrypoint reaches Ray as it is, and not through a shell of KubeRay's.
    assert spec["submissionMode"] == "HTTPMode"


@pytest.mark.nightly
def test_a_job_that_is_started_again_on_an_empty_disk_goes_on_from_the_mirror(tmp_path):
    mirror = (tmp_path / "mirror").as_uri()
    table = REPOSITORY / "tests/tables/svm_digits.csv"
    search = ["study.name=big", "data=table", f"data.path={table}", "data.metric=accuracy_*", f"study.mirror={mirror}"]
    script = Job("big", [*search, "dispatch=local", "track=none", "study.trials=3"], mirror).commands("HERE")
    command = ["bash", "-euc", script.replace('"dispatch.address=HERE"', "")]
    binaries = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def start(folder):
        folder.mkdir()
        subprocess.run(command, cwd=folder, env=environment() | {"PATH": binaries}, check=True)
        return rows(folder / "runs/big/trials.csv")

    first = start(tmp_path / "pod")
    assert len(first) == 3
    assert start(tmp_path / "another") == first, "the times, too"


def test_what_is_not_given_is_a_placeholder_that_the_script_refuses(capsys):
    path, out = written(capsys, "slurm", "study.name=big")
    assert "FILL_IN_MEMORY, FILL_IN_PARTITION, FILL_IN_TIME" in out
    ran = subprocess.run(["bash", str(path)], capture_output=True, text=True, check=False)
    assert (ran.returncode, "fill in what begins with FILL_IN" in ran.stderr) == (2, True)
    assert f"--output: {path} exists; delete it" in refused(capsys, "cluster", "slurm", "study.name=big")
    assert "FILL_IN_IMAGE, FILL_IN_MEMORY" in written(capsys, "kubernetes", "study.name=big")[1]


@pytest.mark.parametrize(("arguments", "words"), [
    (["slurm", "dispatch=local"], ("dispatch", "must be ray")),
    (["slurm", "dispatch.address=a:1"], ("dispatch.address", "leave it out")),
    (["slurm", "+my.api_key=sk-1234"], ("+my.api_key=***: must not hold a secret", "set NAME on the cluster")),
    (["slurm", "--memory", "64"], ("--memory", "64G")), (["slurm", "--time", "4"], ("--time", "04:00:00")),
    (["slurm", "--partition", "a b"], ("--partition", "one word")),
    (["kubernetes", "--time", "01:00:00"], ("--time: has no effect with kubernetes",)),
    (["slurm", "--nodes", "0"], ("--nodes", "1 or more", "given '0'")),
    (["condor"], ("condor", "choose from")),
])  # fmt: skip
def test_bad_input_gets_one_line_and_writes_nothing(capsys, arguments, words):
    err = refused(capsys, "cluster", *arguments)
    assert all(word in err for word in words), err
    assert not list(Path().iterdir())


# Stand-ins for Slurm's programs start two Ray nodes on this machine. Each node has its own table of processes, since
# `ray stop` ends every Ray that it sees. The second node does not know the addresses of this machine, by which
# `ray symmetric-run` tells which node is the head.
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
[ "$1 $2 $3" = "--cpus-per-task=1 --kill-on-bad-exit=1 --wait=30" ] || exit 2
shift 3
PYTHONPATH="$STAND_INS:$PYTHONPATH" {" ".join(UNSHARE)} "$@" & other=$!
"$@"
code=$?
kill -KILL "$other"
exit "$code"
"""
SCONTROL = """#!/bin/bash
if [ "$1" = requeue ]; then touch requeued; else echo "$HEAD"; fi
"""
STUDY = ("study.trials=8", "training.epochs=6", "split.folds=1", "strategy=random", "track=none")


def an_address():
    """An address of this machine that is not the loopback one."""
    found = [one.address for name in psutil.net_if_addrs().values() for one in name if re.match(r"\d+\.", one.address)]
    others = [address for address in found if not address.startswith("127.")]
    return others[0] if others else pytest.skip("this machine has the loopback address only")


@pytest.mark.nightly
def test_two_nodes_a_stop_before_the_time_is_over_and_the_same_trials(capsys, tmp_path):
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("process namespaces are not permitted here")
    head = an_address()
    stand_ins = tmp_path / "stand_ins"
    stand_ins.mkdir()
    for name, text in {"sbatch": SBATCH, "srun": SRUN, "scontrol": SCONTROL}.items():
        (stand_ins / name).write_text(text)
        (stand_ins / name).chmod(0o755)
    (stand_ins / "sitecustomize.py").write_text("import psutil\npsutil.net_if_addrs = dict\n")
    written(capsys, "slurm", *OF_SLURM, *ASKED, *STUDY)
    path = f"{stand_ins}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = environment() | {"PATH": path, "HEAD": head, "STAND_INS": str(stand_ins), MINE: head}
    # The tests keep Ray to the loopback address.
    own.pop(REACHED_FROM_OUTSIDE, None)
    with Path("out.txt").open("w") as output:
        job = subprocess.Popen([*UNSHARE, "sbatch", "big.sbatch"], env=own, stdout=output, stderr=output)
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
    text = Path("out.txt").read_text()
    assert (code, "of 8 trials are saved" in text, "the script ended with 143" in text) == (0, True, True), text
    assert "2 workers" in text
    assert not list(Path().glob(".hpo-job-*"))
    prints(capsys, "search", *STUDY, "study.name=here", "dispatch=local")
    assert rows(Path("runs/big/trials.csv")) == rows(Path("runs/here/trials.csv"))
