"""A RayJob for KubeRay: a Ray cluster of pods that lives as long as the search."""

import importlib.metadata
import re
from typing import Any

import yaml

from hpo.integrations.clusters.job import FILL_IN, Job

_HEAD = """\
# Submit with: kubectl apply -f @file@
# KubeRay 1.5 or later starts the pods, behind a token of their own, and ends them after the search. The image must have
# hpo-transformer, Ray {ray} and your code, in its working directory. A pod's disk is lost with it: with study.mirror
# a job that starts again goes on where the search was stopped.
"""
_WHY = f"# Kubernetes refuses this file until everything that begins with {FILL_IN} is filled in.\n"
# For trainings to save their states before a pod is killed.
_SECONDS_TO_SAVE = 120


def manifest(job: Job, file: str) -> str:
    """Return the YAML; `file` is its name."""
    version = importlib.metadata.version("ray")
    name = re.sub(r"[^a-z0-9]+", "-", job.name.lower()).strip("-")[:40]
    content = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": f"hpo-{name}"},
        "spec": {
            "entrypoint": _entrypoint(job),
            "backoffLimit": 3,
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": 600,
            "rayClusterSpec": {
                "rayVersion": version,
                "authOptions": {"mode": "token"},
                "headGroupSpec": {"rayStartParams": {}, "template": _pod(job, "head")},
                **({"workerGroupSpecs": [_workers(job)]} if job.nodes > 1 else {}),
            },
        },
    }
    text = yaml.safe_dump(content, sort_keys=False, width=10_000)
    return _HEAD.format(ray=version).replace("@file@", file) + (_WHY if FILL_IN in text else "") + text


def _entrypoint(job: Job) -> str:
    """Return the commands as one line, in which Ray's job finds the address of its cluster."""
    lines = [line.strip() for line in job.commands("$RAY_ADDRESS").splitlines()]
    text = "; ".join(line for line in lines if not line.startswith("#"))
    return text.replace("then; ", "then ")


def _workers(job: Job) -> dict[str, Any]:
    others = job.nodes - 1
    counts = {"replicas": others, "minReplicas": others, "maxReplicas": others}
    return {"groupName": "workers", **counts, "rayStartParams": {}, "template": _pod(job, "worker")}


def _pod(job: Job, name: str) -> dict[str, Any]:
    memory = job.given("memory")
    # Slurm's and people's 64G is Kubernetes' 64Gi.
    memory = re.sub(r"^(\d+)([KMGT])$", r"\1\2i", memory)
    amounts = {"cpu": str(job.cpus), "memory": memory, **({"nvidia.com/gpu": str(job.gpus)} if job.gpus else {})}
    resources = {"limits": amounts, "requests": dict(amounts)}
    container = {"name": f"ray-{name}", "image": job.given("image"), "resources": resources}
    return {"spec": {"terminationGracePeriodSeconds": _SECONDS_TO_SAVE, "containers": [container]}}
