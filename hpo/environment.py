"""What the study ran on: versions, machine and the state of the code."""

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

_PACKAGES = ("torch", "numpy", "scikit-learn", "optuna", "ray", "mlflow", "hydra-core", "pandas", "hpo-transformer")


def describe_environment() -> dict[str, Any]:
    """Return versions, machine and commit as a JSON-able dict. Passwords in addresses are masked."""
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "commit": _git("rev-parse", "HEAD"),
        "is_dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "command": re.sub(r"://[^/@\s]+@", "://***@", " ".join(["hpo", *sys.argv[1:]])),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _git(*arguments: str) -> str | None:
    """Return what git says of the working directory; None outside a repository or without git."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
