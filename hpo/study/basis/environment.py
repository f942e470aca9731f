"""The environment of a study: versions, the machine, and the state of the repository."""

import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from hpo.config.documents import read_json
from hpo.config.secrets import Secrets, hide_in_argument, hide_secrets
from hpo.errors import StudyError
from hpo.git import git
from hpo.machine import version_of
from hpo.study.files.folder import inner
from hpo.study.upgrade import FORMAT

_PACKAGES = ("torch", "numpy", "scikit-learn", "optuna", "ray", "mlflow", "hydra-core", "pandas", "hpo-transformer")
# x86 vector instructions for which numerical libraries have their own code, the widest first.
_VECTORS = ("avx512f", "avx2", "avx")
# The keys that every report needs.
_KEYS = (
    *("python", "platform", "processor", "cpus", "memory_bytes", "gpus", "driver", "cuda", "packages", "commit"),
    *("is_dirty", "command"),
)


def describe_environment(secrets: Secrets | None = None) -> dict[str, Any]:
    """Return versions, machine, commit and command as a dict for JSON, with the format number of the study's files.

    The commit is from the git repository of the working directory. Secrets in the command are redacted.
    """
    return {
        "format": FORMAT,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": _gpus(),
        "driver": gpu_driver(),
        "cuda": _cuda(),
        "packages": {name: version for name in _PACKAGES if (version := version_of(name))},
        "commit": (git("rev-parse", "HEAD") or "").strip() or None,
        "is_dirty": bool(git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")),
        "command": shlex.join(
            ["hpo", *(hide_secrets(hide_in_argument(argument), secrets or {}) for argument in sys.argv[1:])]
        ),
    }


def read_environment(path: Path) -> dict[str, Any]:
    """Read from a file a dict that `describe_environment` returned; StudyError if a key is missing."""
    environment = read_json(path)
    for key in _KEYS:
        if key not in environment:
            raise StudyError(f"{path}: has no key '{key}'; restore the file")
    return environment


def changed_environment(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each change of Python, platform, processor, commit or packages, and for uncommitted changes."""
    for key in ("python", "platform", "processor", "commit"):
        if before.get(key) != now.get(key):
            yield f"{key}: was {before.get(key)}, is {now.get(key)}"
    old, new = inner(before, "packages"), inner(now, "packages")
    for name in sorted({**old, **new}):
        if old.get(name) != new.get(name):
            yield f"packages: {name} was {old.get(name)}, is {new.get(name)}"
    for text, environment in (("had uncommitted changes then", before), ("has uncommitted changes now", now)):
        if environment.get("is_dirty"):
            yield f"code: {text}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    return processor_of(info.read_text()) if info.exists() else platform.processor()


def processor_of(info: str) -> str:
    """Return the processor's name, generation and widest vector instructions from the text of /proc/cpuinfo.

    Numerical libraries choose their code by generation and instructions, so results may depend on them.
    """
    lines = (line.partition(":") for line in info.partition("\n\n")[0].splitlines())
    values = {key.strip(): value.strip() for key, _, value in lines}
    # Add the generation: on rented machines the name may only be that of a family, such as "AMD EPYC", whose
    # generations round differently.
    if "model name" not in values:
        return platform.processor()
    flags = values.get("flags", "").split()
    kind = [f"{key} {values[name]}" for key, name in (("family", "cpu family"), ("model", "model")) if name in values]
    kind += [vectors for vectors in _VECTORS if vectors in flags][:1]
    return f"{values['model name']} ({', '.join(kind)})" if kind else values["model name"]


def _gpus() -> list[str]:
    """Return the names of this machine's NVIDIA GPUs."""
    paths = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    lines = (line for path in paths for line in path.read_text().splitlines())
    return [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]


def gpu_driver() -> str | None:
    """Return the version of this machine's NVIDIA driver; None if there is no driver."""
    version = Path("/proc/driver/nvidia/version")
    match = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", version.read_text()) if version.exists() else None
    return match.group(1) if match else None


def _cuda() -> str | None:
    """Return the CUDA version from the suffix of torch's version: 13.0 for `+cu130`; None for a CPU build."""
    match = re.search(r"\+cu(\d+)(\d)$", version_of("torch") or "")
    return f"{match.group(1)}.{match.group(2)}" if match else None
