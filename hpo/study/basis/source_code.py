"""The code that decides the results of trials: the objective's, the chosen strategy's, and the search's."""

import ast
import functools
import platform
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpo.engine.objective.kept_function import MODULE
from hpo.engine.objective.objective import Objective
from hpo.engine.objective.path import ObjectivePath
from hpo.engine.objective.source_files import (
    RUN,
    bodies,
    digest,
    digests_of,
    digests_of_run,
    parsed,
    sources,
    without_docstrings,
)
from hpo.package import PACKAGE, ROOT
from hpo.study.basis.environment import version_of
from hpo.study.basis.same_trials import SAME_TRIALS

# Libraries that compute points, trainings and scores.
_LIBRARIES = ("cmaes", "numpy", "optuna", "sacrebleu", "scikit-learn", "scipy", "tokenizers", "torch")
_STRATEGIES = PACKAGE / "engine" / "strategies"
# Where the decisions of a search, and of who wins it, begin: what the rest of them is, their imports say.
_BEGINNINGS = (
    *("engine/space/reader.py", "engine/strategies/first.py", "engine/training/task_builder.py"),
    *("engine/training/worker.py", "engine/loop.py", "study/winner/verdict.py"),
)
# They carry tasks and keep outcomes; the chosen strategy is a piece of its own.
_APART = ("dispatch", "record", "strategies")
_SEARCH = "search"
# Of a function that was given from Python, besides what earlier versions noted.
_HELD, _COMPILED = f"{MODULE}, classes and wrappers", f"{MODULE}, functions without source"
# The objectives of the toolkit.
_OBJECTIVES = (PACKAGE / "objectives", ROOT / "model")


@dataclass(frozen=True)
class CodeHashes:
    """The code that decided a study's trials: hashes of its pieces, and the versions of Python and libraries, by name.

    A piece is each source file of a user's objective or strategy, `strategy`, `search`, and `objective` where it comes
    with the toolkit; a function that was given from Python has three. Docstrings and comments do not count; of the
    toolkit's own code neither do imports and the order of definitions. Early versions noted no pieces.
    """

    pieces: Mapping[str, str] | None
    versions: Mapping[str, str]

    def known_of(self, now: "CodeHashes") -> Mapping[str, str]:
        """Return the pieces of `now` to compare this one with, as they are here where no trial became another."""
        # An earlier version did not note all; a file that a command names and that is new is what its trainings write.
        known, pieces = self.pieces or {}, now.pieces or {}
        is_early = _SEARCH not in known
        return {
            name: known[name] if is_same(known.get(name), piece) else piece
            for name, piece in pieces.items()
            if name in known or not (is_early or name in (_HELD, _COMPILED) or name.endswith(RUN))
        }

    def without_written(self, before: "CodeHashes") -> "CodeHashes":
        """Return it without the files that a command names and that were not there before: its trainings write them."""
        known, pieces = before.pieces or {}, (self.pieces or {}).items()
        return replace(self, pieces={name: piece for name, piece in pieces if name in known or not name.endswith(RUN)})

    @property
    def files(self) -> Mapping[str, str]:
        """The pieces that are source files of the user's objective, which workers import or run."""
        return {name: piece for name, piece in (self.pieces or {}).items() if name.endswith((".py", RUN))}

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> "CodeHashes":
        """Read the `vars` of an instance; an earlier version wrote hashes of whole files, or of five as `training`."""
        if "pieces" in note:
            pieces = {name: piece for name, piece in note["pieces"].items() if name != "training"}
            return cls(pieces, note["versions"])
        return cls(None, {name: note[name] for name in ("python", *_LIBRARIES) if name in note})


def is_same(before: str | None, now: str) -> bool:
    """Return whether a piece is the same, or was changed without any trial becoming another."""
    return before == now or before in SAME_TRIALS.get(now, ())


def describe_code(objective: Objective, strategy: type, config: Mapping[str, Any] | None = None) -> CodeHashes:
    """Return the code that a study's results depend on; the objective's `config` may name files that are code.

    Of the objective all of its package counts; of a single module, that and the modules and packages in its folder that
    it imports; of a function that was given from Python, what it uses of its script or notebook, and the modules there.
    """
    file = _file_of(strategy.__module__)
    pieces = {"strategy": _hash(_follow([file], PACKAGE, [_STRATEGIES])), _SEARCH: _of_the_search()}
    if PACKAGE not in file.parents:
        pieces |= {f"{name} (strategy)": piece for name, piece in digests_of(strategy.__module__).items()}
    if objective.kept is not None:
        pieces[MODULE] = objective.kept.digest
        more = {_HELD: objective.kept.held, _COMPILED: objective.kept.compiled}
        pieces |= {name: piece for name, piece in more.items() if piece is not None}
        for module in objective.kept.modules:
            pieces |= digests_of(module)
        return CodeHashes(pieces, _versions())
    module = ObjectivePath.of(objective.path).module
    ours = next((folder for folder in _OBJECTIVES if folder in _file_of(module).parents), None)
    if ours is not None:
        pieces["objective"] = _of_objectives(ours)
        pieces |= digests_of_run(objective.code_files(config or {}) if objective.code_files else (), Path.cwd())
    else:
        pieces |= digests_of(module)
    return CodeHashes(pieces, _versions())


def search_files(toolkit: Path = PACKAGE) -> set[Path]:
    """Return the files that decide which trials there are, what each trains, and what becomes of it."""
    rooms, apart = [toolkit / "engine", toolkit / "study" / "winner"], [toolkit / "engine" / room for room in _APART]
    return _follow([toolkit / name for name in _BEGINNINGS], toolkit, rooms, apart)


@functools.cache
def _of_the_search() -> str:
    return _hash(search_files())


@functools.cache
def _of_objectives(folder: Path) -> str:
    return _hash(sources(folder))


def _versions() -> dict[str, str]:
    versions = {library: version for library in _LIBRARIES if (version := version_of(library))}
    return {"python": ".".join(platform.python_version_tuple()[:2]), **versions}


def _hash(paths: Iterable[Path]) -> str:
    """Return a hash of the files' definitions in any order, without docstrings, comments and imports."""
    return digest("\n".join(sorted(definition for path in paths for definition in _definitions(path))))


def _definitions(path: Path) -> list[str]:
    """Return the text of every statement of a file of the toolkit, less its imports: its modules may move."""
    tree = without_docstrings(parsed(path.read_bytes()) or ast.Module([], []))
    for node in bodies(tree):
        node.body = [inner for inner in node.body if not isinstance(inner, ast.Import | ast.ImportFrom)]
    return [ast.unparse(_WithoutOwnImports().visit(node)) for node in tree.body]


class _WithoutOwnImports(ast.NodeTransformer):
    """Inside of an `if` or `with` only imports of the toolkit count for nothing, so that studies of before go on."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        return ast.Pass() if (node.module or "").partition(".")[0] == "hpo" else node


def _file_of(module: str) -> Path:
    """Return an imported module's file; a path that does not exist for a package without an __init__.py."""
    return Path(getattr(sys.modules.get(module), "__file__", None) or module)


def _follow(
    beginnings: Iterable[Path], toolkit: Path, rooms: Collection[Path], apart: Collection[Path] = ()
) -> set[Path]:
    """Return files, and those of these rooms of the toolkit that they import, and so on, without the rooms `apart`."""
    seen, waiting = set[Path](), [*beginnings]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for node in ast.walk(parsed(path.read_bytes()) or ast.Module([], [])):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            module = toolkit.parent / node.module.replace(".", "/")
            for place in (module, *(module / alias.name for alias in node.names)):
                file = place.with_name(f"{place.name}.py")
                places = {*file.parents}
                if not places.isdisjoint(rooms) and places.isdisjoint(apart) and file.is_file():
                    waiting.append(file)
    return seen
