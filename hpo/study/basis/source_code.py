"""The code that decides a study's trials: revisions of the toolkit's parts, and hashes of the user's code."""

import functools
import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from hpo.engine import loop
from hpo.git import git
from hpo.machine import PYTHON, version_of
from hpo.package import PACKAGE, ROOT
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.path import MODULE, ObjectivePath
from hpo.workers.objective.source_files import RUN, digests_of, digests_of_run, sources

# Libraries that compute points, trainings and scores.
_LIBRARIES = ("cmaes", "numpy", "optuna", "sacrebleu", "scikit-learn", "scipy", "tokenizers", "torch")
_DIGITS = 12


class Toolkit(TypedDict):
    """The version of the toolkit: the commit (None without a git repository), and a hash of all its Python files."""

    commit: str | None
    files: str


@dataclass(frozen=True)
class Code:
    """The code that decided a study's trials.

    Attributes:
        revisions: the REVISION of the search loop, the strategies and the toolkit's own objectives, by name.
        pieces: a hash of each piece of the user's code, by the piece's name. A piece is a source file, or a function
            given from Python. Docstrings and comments do not count. If data are given from Python, the mapping also has
            the key `data`, whose value is the kind of the data.
        toolkit: the version of the toolkit's own files.
        versions: the versions of Python and of libraries, by name.
    """

    revisions: Mapping[str, int]
    pieces: Mapping[str, str]
    toolkit: Toolkit
    versions: Mapping[str, str]

    def changes_to(self, now: "Code") -> list[str]:
        """Return a line for each difference between this code and `now`; such a difference may change trials."""
        pieces = changed_names(self.pieces, now.without_written(self).pieces)
        return [
            *(f"code: revision of {change}" for change in changed_names(self.revisions, now.revisions)),
            # Omit the hashes of a function, because users cannot relate them to anything.
            *(
                "the function changed (its code, or a value that it uses)"
                if line.startswith(MODULE)
                else f"code: {line}"
                for line in pieces
            ),
        ]

    def edits_to(self, now: "Code") -> list[str]:
        """Return a list with one line that says how the toolkit's files differ between this code and `now`.

        The list is empty if the files are the same. The files may differ although the commits are the same.
        """
        if self.toolkit["files"] == now.toolkit["files"]:
            return []
        before, after = (code.toolkit["commit"] for code in (self, now))
        if before and after and before != after:
            return [f"toolkit: commit was {before[:_DIGITS]} and is now {after[:_DIGITS]}"]
        return [f"toolkit: its files were edited (hash {self.toolkit['files']}, now {now.toolkit['files']})"]

    def without_written(self, before: "Code") -> "Code":
        """Return this code without the files that trainings wrote.

        `before` is the code before the trainings. If `before` lacks a file that the user's command runs or reads, a
        training wrote this file.
        """
        pieces = {name: hash_ for name, hash_ in self.pieces.items() if name in before.pieces or not name.endswith(RUN)}
        return replace(self, pieces=pieces)

    @property
    def files(self) -> Mapping[str, str]:
        """The hashes of the user's source files that workers import or run."""
        return {name: piece for name, piece in self.pieces.items() if name.endswith((".py", RUN))}


def changed_names(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a line for each name whose values in `before` and `now` differ."""
    return [
        f"{name} was {before.get(name, 'missing')} and is now {now.get(name, 'missing')}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]


def describe_code(
    objective: Objective, strategies: Mapping[str, type], config: Mapping[str, Any] | None = None
) -> Code:
    """Return the code on which a study's results depend.

    The code depends on where the objective is:
    - in a user's package: the whole package;
    - in a user's single module: this module, and the modules and packages that it imports from its folder;
    - given from Python: the code that it uses from the script or notebook, and from modules in the working directory;
    - in the toolkit: the objective's REVISION, and files that it runs, such as a user's program.

    Args:
        strategies: the classes of the strategies, by their names in the configuration.
        config: the objective's configuration; it may name files that are code.
    """
    revisions, pieces = {"search": loop.REVISION}, dict[str, str]()
    for name, strategy in strategies.items():
        is_own = PACKAGE not in _file_of(strategy.__module__).parents
        if not is_own or hasattr(strategy, "REVISION"):
            revisions[f"strategy {name}"] = strategy.REVISION  # type: ignore[attr-defined]  # a user's may inherit one
        if is_own:
            pieces |= {f"{path} (strategy)": hash_ for path, hash_ in digests_of(strategy.__module__).items()}
    if objective.pickled is not None:
        pieces[MODULE] = objective.pickled.digest
        if objective.pickled.rows is not None:
            pieces["data"] = f"a {objective.pickled.rows.kind}"
        for module in objective.pickled.modules:
            pieces |= digests_of(module)
    elif objective.revision is not None:
        revisions[f"objective {objective.module}"] = objective.revision
        pieces |= digests_of_run(objective.code_files(config or {}) if objective.code_files else (), Path.cwd())
    else:
        pieces |= digests_of(ObjectivePath.of(objective.path).module)
    return Code(revisions, pieces, _toolkit(), _versions())


@functools.cache
def _toolkit() -> Toolkit:
    """Return the version of the toolkit's own files; hash the files only once per process."""
    hashed = hashlib.sha256()
    for folder in (PACKAGE, ROOT / "model"):
        for path in sorted(sources(folder)):
            hashed.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    is_repository = (ROOT / ".git").exists()
    commit = (git("-C", str(ROOT), "rev-parse", "HEAD") or "").strip() if is_repository else ""
    return {"commit": commit or None, "files": hashed.hexdigest()[:_DIGITS]}


def _versions() -> dict[str, str]:
    versions = {library: version for library in _LIBRARIES if (version := version_of(library))}
    return {"python": PYTHON, **versions}


def _file_of(module: str) -> Path:
    """Return an imported module's file; for a package without an __init__.py, return a path that does not exist."""
    return Path(getattr(sys.modules.get(module), "__file__", None) or module)
