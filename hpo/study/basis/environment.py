"""What the study ran on: versions, machine and the state of the code."""

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from hpo.config.sealing import Secrets, hidden, hidden_argument
from hpo.errors import StudyError

_PACKAGES = ("torch", "numpy", "scikit-learn", "optuna", "ray", "mlflow", "hydra-core", "pandas", "hpo-transformer")
# The sets of vector instructions of x86, widest first, that numerical libraries have code of their own for.
_VECTORS = ("avx512f", "avx2", "avx")
# What every report tells.
_KEYS = ("python", "platform", "processor", "cpus", "memory_bytes", "gpus", "packages", "commit", "is_dirty", "command")


def describe_environment(secrets: Secrets | None = None) -> dict[str, Any]:
    """Return versions, machine and commit as a JSON-able dict. What looks like a secret in the command is masked."""
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": _gpus(),
        "driver": _driver(),
        "cuda": _cuda(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "commit": _git("rev-parse", "HEAD"),
        "is_dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "command": " ".join(["hpo", *(hidden(hidden_argument(argument), secrets or {}) for argument in sys.argv[1:])]),
    }


def refuse_incomplete(environment: Mapping[str, Any], path: Path) -> None:
    """Raise StudyError where a file holds something else than what `describe_environment` returned."""
    missing = [key for key in _KEYS if key not in environment]
    if missing:
        raise StudyError(f"{path}: has no {missing[0]}; put back what was there")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    return processor_of(info.read_text()) if info.exists() else platform.processor()


def processor_of(info: str) -> str:
    """Return the name of a processor, and what libraries choose their code by: its generation and widest vectors.

    On hired machines the name alone is only that of a family: "AMD EPYC" is many, which round differently.

    Args:
        info: as /proc/cpuinfo has it.
    """
    lines = (line.partition(":") for line in info.partition("\n\n")[0].splitlines())
    values = {key.strip(): value.strip() for key, _, value in lines}
    if "model name" not in values:
        return platform.processor()
    flags = values.get("flags", "").split()
    kind = [f"{key} {values[name]}" for key, name in (("family", "cpu family"), ("model", "model")) if name in values]
    kind += [vectors for vectors in _VECTORS if vectors in flags][:1]
    return f"{values['model name']} ({', '.join(kind)})" if kind else values["model name"]


def _gpus() -> list[str]:
    """Return the name of each NVIDIA GPU, as its driver tells; empty where there is none."""
    found = []
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        found += [line.partition(":")[2].strip() for line in path.read_text().splitlines() if line.startswith("Model:")]
    return found


def _driver() -> str | None:
    version = Path("/proc/driver/nvidia/version")
    found = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", version.read_text()) if version.exists() else None
    return found.group(1) if found else None


def _cuda() -> str | None:
    """Return the CUDA that torch was built for, by its version's suffix: 13.0 for `+cu130`; None for a CPU build."""
    found = re.search(r"\+cu(\d+)(\d)$", _version("torch") or "")
    return f"{found.group(1)}.{found.group(2)}" if found else None


def _git(*arguments: str) -> str | None:
    """Return what git says of the working directory; None outside a repository or without git."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
