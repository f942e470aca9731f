"""The code that decides the results of trials: the objective's, the chosen strategy's, and the training's."""

import ast
import hashlib
import importlib.metadata
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hpo
from hpo.engine.training.objective.kept_function import MODULE
from hpo.engine.training.objective.objective import Objective
from hpo.engine.training.objective.own_files import files_of, sources, tree_of
from hpo.engine.training.objective.path import ObjectivePath

# Libraries that compute points, trainings and scores.
_LIBRARIES = ("cmaes", "numpy", "optuna", "sacrebleu", "scikit-learn", "scipy", "tokenizers", "torch")
_DIGITS = 16
_TOOLKIT = Path(hpo.__file__).parent
_STRATEGIES = _TOOLKIT / "engine" / "strategies"
# What of the toolkit decides what a task trains, and what is made of its outcome.
_TRAINING = ("examples.py", "payload.py", "splits.py", "task_builder.py", "worker.py")
# The objectives of the toolkit.
_OBJECTIVES = (_TOOLKIT / "objectives", _TOOLKIT.parent / "model")


@dataclass(frozen=True)
class Code:
    """The code that decided a study's trials.

    Attributes:
        pieces: a hash by name: each source file of a user's objective by its path, `strategy`, `training`, and
            `objective` where that comes with the toolkit. Docstrings and comments do not count; of the toolkit's own
            code neither do imports and the order of definitions, so that its files may move. None in a study of an
            earlier version.
        versions: of Python, `major.minor`, and of each installed library, by name.
    """

    pieces: Mapping[str, str] | None
    versions: Mapping[str, str]

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> "Code":
        """Read the `vars` of an instance; an earlier version wrote hashes of whole files."""
        if "pieces" in note:
            return cls(note["pieces"], note["versions"])
        return cls(None, {name: note[name] for name in ("python", *_LIBRARIES) if name in note})


def describe_code(objective: Objective, strategy: type) -> Code:
    """Return the code that a study's results depend on.

    Args:
        objective: all of its package counts; of a single module, the module and the modules and packages in its
            folder that it imports; of a function that was given from Python, what it uses of its script or notebook,
            and the modules there.
        strategy: the chosen strategy's class.
    """
    pieces = {
        "strategy": _hash(_with_its_parts(_file_of(strategy.__module__), set())),
        "training": _hash(_TOOLKIT / "engine" / "training" / name for name in _TRAINING),
    }
    if objective.kept is not None:
        pieces[MODULE] = objective.kept.digest
        for module in objective.kept.modules:
            pieces |= {name: _digest(_program(path)) for name, path in sorted(files_of(module).items())}
        return Code(pieces, _versions())
    module = ObjectivePath.of(objective.path).module
    ours = next((folder for folder in _OBJECTIVES if folder in _file_of(module).parents), None)
    if ours is not None:
        pieces["objective"] = _hash(sources(ours))
    else:
        pieces |= {name: _digest(_program(path)) for name, path in sorted(files_of(module).items())}
    return Code(pieces, _versions())


def _versions() -> dict[str, str]:
    versions = {"python": ".".join(platform.python_version_tuple()[:2])}
    for library in _LIBRARIES:
        try:
            versions[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _hash(paths: Iterable[Path]) -> str:
    """Return a hash of the files' definitions in any order, without docstrings, comments and imports."""
    return _digest("\n".join(sorted(definition for path in paths for definition in _definitions(path))))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_DIGITS]


def _program(path: Path) -> str:
    """Return a user's file without docstrings and comments; what it imports, and in which order, decides what it does.

    A file that cannot be parsed gives its hash.
    """
    tree = tree_of(path)
    if tree is None:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    for node in _bodies(tree):
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _bodies(tree: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return (node for node in ast.walk(tree) if isinstance(node, kinds))


def _definitions(path: Path) -> list[str]:
    """Return the text of every statement of a file of the toolkit, less its imports: its modules may move."""
    tree = ast.parse(_program(path))
    for node in _bodies(tree):
        node.body = [inner for inner in node.body if not isinstance(inner, ast.Import | ast.ImportFrom)]
    return [ast.unparse(node) for node in tree.body]


def _file_of(module: str) -> Path:
    """Return an imported module's file; a path that does not exist for a package without an __init__.py."""
    return Path(getattr(sys.modules.get(module), "__file__", None) or module)


def _with_its_parts(path: Path, seen: set[Path]) -> Iterator[Path]:
    """Yield a strategy's file, and those below the folder of strategies that it imports, recursively."""
    if path in seen:
        return
    seen.add(path)
    yield path
    for node in ast.walk(tree_of(path) or ast.Module([], [])):
        if isinstance(node, ast.ImportFrom) and node.module:
            place = _TOOLKIT.parent / f"{node.module.replace('.', '/')}.py"
            if _STRATEGIES in place.parents:
                yield from _with_its_parts(place, seen)
