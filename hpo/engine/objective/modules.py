"""Where Python imports from: the toolkit without the working directory in the way, a user's modules with it first."""

import contextlib
import os
import sys
from collections.abc import Iterator

from hpo.package import ROOT


def is_root(folder: str) -> bool:
    """Return whether a folder is ROOT, under whatever name."""
    return os.path.realpath(folder) == os.path.realpath(ROOT)


def path_without(folder: str) -> list[str]:
    """Return `sys.path` without a folder, in which a user may have a `model.py` or `hpo.py`; but never without ROOT."""
    in_the_way = None if is_root(folder) else os.path.realpath(folder)
    kept = []
    for entry in sys.path:
        try:
            place = os.path.realpath(entry)
        except FileNotFoundError:
            # A relative entry, and the working directory was deleted.
            continue
        if place != in_the_way:
            kept.append(entry or place)
    return kept


@contextlib.contextmanager
def out_of_the_way(folder: str) -> Iterator[None]:
    """Import without this folder inside; what is imported inside may still add to the path."""
    before, without = sys.path[:], path_without(folder)
    sys.path[:] = without
    try:
        yield
    finally:
        sys.path[:] = before + [entry for entry in sys.path if entry not in without and entry not in before]


def put_first(folder: str) -> None:
    """Let what a user wrote be found before all else."""
    sys.path[:] = [folder, *(entry for entry in sys.path if entry != folder)]


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours, or of a library, without the working directory on its path.

    By `-P`, which what that process starts does not inherit: a user's own scripts find what lies beside them.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def path_variable(folder: str) -> dict[str, str]:
    """Return the variable by which another Python finds what this one can import, without this folder."""
    return {"PYTHONPATH": os.pathsep.join(path_without(folder))}
