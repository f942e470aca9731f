"""`hpo cluster`: what it writes is valid, holds what was asked for, and runs; what is missing is told."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from hpo.integrations.clusters import Job
from tests.hpo.cli.commands import hpo
from tests.studies import REPOSITORY, environment, rows

SCHEMA = json.loads((Path(__file__).parent / "rayjob_schema.json").read_text())
ASKED = ("--nodes", "2", "--cpus", "1", "--memory", "4G", "study.name=big")
OF_SLURM = ("--partition", "all", "--time", "01:00:00")
MIRRORED = ("space.training.lr={low: 1e-5, high: 1e-2, log: true}", "study.mirror=s3://bucket/hpo")


def written(capsys, *arguments):
    code, out, err = hpo(capsys, "cluster", *arguments)
    assert code == 0, out + err
    return Path(out.partition("wrote ")[2].splitlines()[0]), out


@pytest.mark.parametrize("kind", [("slurm", *OF_SLURM), ("local", "--hosts", "ann,bob")])
@pytest.mark.parametrize("overrides", [(), MIRRORED])
def test_scripts_pass_shellcheck(capsys, tmp_path, monkeypatch, kind, overrides):
    monkeypatch.chdir(tmp_path)
    path, _ = written(capsys, *kind, *ASKED, *overrides)
    found = subprocess.run(
        [Path(sys.executable).with_name("shellcheck"), path], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, "")
    text = path.read_text()
    assert "hpo search" in text
    assert all(shlex.quote(word) in text for word in overrides)


@pytest.mark.parametrize("overrides", [(), MIRRORED])
def test_the_job_of_kubernetes_is_one_of_kuberay(capsys, tmp_path, monkeypatch, overrides):
    """The schema: rayjob_schema.json, of KubeRay's own of version 1, as far as we use it."""
    monkeypatch.chdir(tmp_path)
    path, _ = written(capsys, "kubernetes", *ASKED, "--gpus", "2", "--image", "me/hpo:1", *overrides)
    job = yaml.safe_load(path.read_text())
    jsonschema.validate(job, SCHEMA)
    spec = job["spec"]
    pod = spec["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    assert pod["resources"]["limits"] == {"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "2"}
    assert spec["rayClusterSpec"]["authOptions"] == {"mode": "token"}
    checked = subprocess.run(["bash", "-n", "-c", spec["entrypoint"]], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert ("hpo resume" in spec["entrypoint"]) == bool(overrides)


@pytest.mark.nightly
def test_a_job_that_is_started_again_on_an_empty_disk_goes_on_from_the_mirror(tmp_path):
    mirror = (tmp_path / "mirror").as_uri()
    table = REPOSITORY / "tests/tables/svm_digits.csv"
    asked = ["study.name=big", "data=table", f"data.path={table}", "data.metric=accuracy_*", f"study.mirror={mirror}"]
    script = Job("big", [*asked, "dispatch=local", "track=none", "study.trials=3"], mirror).commands("HERE")
    command = ["bash", "-euc", script.replace('"dispatch.address=HERE"', "")]
    binaries = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def start(folder):
        folder.mkdir()
        subprocess.run(command, cwd=folder, env=environment() | {"PATH": binaries}, check=True)
        return rows(folder / "runs/big/trials.csv")

    first = start(tmp_path / "pod")
    assert len(first) == 3
    assert start(tmp_path / "another") == first, "the times, too"


def test_what_is_not_given_is_a_placeholder_that_the_script_refuses(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, out = written(capsys, "slurm", "study.name=big")
    assert "FILL_IN_MEMORY, FILL_IN_PARTITION, FILL_IN_TIME" in out
    refused = subprocess.run(["bash", str(path)], capture_output=True, text=True, check=False)
    assert (refused.returncode, "fill in what begins with FILL_IN" in refused.stderr) == (2, True)
    path, out = written(capsys, "kubernetes", "study.name=big")
    assert "FILL_IN_IMAGE, FILL_IN_MEMORY" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["slurm", "dispatch=local"], ("dispatch", "must be ray")),
        (["slurm", "dispatch.address=a:1"], ("dispatch.address", "leave it out")),
        (["slurm", "model.num_layer=3"], ("model.num_layer", "did you mean")),
        (["slurm", "--nodes", "0"], ("--nodes", "1 or more", "given '0'")),
        (["slurm", "--memory", "64"], ("--memory", "64G")),
        (["slurm", "--time", "4"], ("--time", "04:00:00")),
        (["slurm", "--partition", "a b"], ("--partition", "one word")),
        (["condor"], ("condor", "choose from")),
    ],
)
def test_bad_input_gets_one_line_and_writes_nothing(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = hpo(capsys, "cluster", *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert all(word in err for word in words), err
    assert not list(tmp_path.iterdir())
