"""Whether a node has the same Python, toolkit, and torch as the driver: with others its results would be others."""

import hashlib
import importlib.metadata
import importlib.util
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

from hpo.errors import DispatchError
from hpo.package import PACKAGE, ROOT

_LIBRARIES = ("torch", "numpy")
_DIGITS = 12


def describe(package: str | None) -> dict[str, str]:
    """Return the versions here: of Python, libraries, the toolkit and its code, and of an installed package."""
    versions = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for library in _LIBRARIES:
        # Builds for CPU and for GPUs, 2.13.0+cpu and 2.13.0+cu130, belong together.
        versions[library] = _version(library).partition("+")[0]
    versions["hpo"] = f"{_version('hpo-transformer')} (code {_digest((PACKAGE, ROOT / 'model'))})"
    if package is not None:
        spec = importlib.util.find_spec(package)
        places = spec.submodule_search_locations or [spec.origin or ""] if spec else []
        versions[package] = f"of code {_digest(map(Path, places))}" if places else "none"
    return versions


def refuse_unlike(here: Mapping[str, str], there: Mapping[str, str], node: str) -> None:
    """Raise DispatchError where a node differs, which is named with what it has."""
    for name, version in here.items():
        if there.get(name) != version:
            raise DispatchError(
                f"dispatch.address: node {node} has {name} {there.get(name, 'none')}, this machine {version}; install "
                f"the same on both"
            )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _digest(places: Iterable[Path]) -> str:
    """Return a hash of the Python files in these folders, by their names below them."""
    digest = hashlib.sha256()
    for place in places:
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        for file in files:
            digest.update(f"{file.relative_to(place)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:_DIGITS]
