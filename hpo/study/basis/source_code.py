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
            pieces |= {name: _digest(_program(path)) for name, path in sorted(_objective_files(module).items())}
        return Code(pieces, _versions())
    module = ObjectivePath.of(objective.path).module
    ours = next((folder for folder in _OBJECTIVES if folder in _file_of(module).parents), None)
    if ours is not None:
        pieces["objective"] = _hash(_sources(ours))
    else:
        pieces |= {name: _digest(_program(path)) for name, path in sorted(_objective_files(module).items())}
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
    tree = _tree(path)
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


def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _file_of(module: str) -> Path:
    """Return an imported module's file; a path that does not exist for a package without an __init__.py."""
    return Path(getattr(sys.modules.get(module), "__file__", None) or module)


def _with_its_parts(path: Path, seen: set[Path]) -> Iterator[Path]:
    """Yield a strategy's file, and those below the folder of strategies that it imports, recursively."""
    if path in seen:
        return
    seen.add(path)
    yield path
    for node in ast.walk(_tree(path) or ast.Module([], [])):
        if isinstance(node, ast.ImportFrom) and node.module:
            place = _TOOLKIT.parent / f"{node.module.replace('.', '/')}.py"
            if _STRATEGIES in place.parents:
                yield from _with_its_parts(place, seen)


def _objective_files(module: str) -> dict[str, Path]:
    top, file = _place_of(module.partition(".")[0]), _place_of(module)
    if top.name == "__init__.py":
        return _named(set(_sources(top.parent)), top.parent.parent)
    # A single module, or one in a package without an __init__.py, which imports from the same root.
    root = file.parents[module.count(".")]
    return _named(set(_with_imports(file, root, set())), root)


def _place_of(module: str) -> Path:
    """Return the file of a module: where it was imported from, or where the working directory has it."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is not None:
        return Path(file)
    place = Path.cwd() / module.replace(".", "/")
    package = place / "__init__.py"
    return package if package.is_file() else place.with_suffix(".py")


def _named(paths: set[Path], root: Path) -> dict[str, Path]:
    return {path.relative_to(root).as_posix(): path for path in paths}


def _sources(place: Path) -> Iterator[Path]:
    """Yield all source files below a folder, without the dangling links that editors leave."""
    return (path for path in place.rglob("*.py") if path.is_file())


def _with_imports(path: Path, root: Path, seen: set[Path]) -> Iterator[Path]:
    """Yield a module's file, and those that it imports from the folder `root`, recursively."""
    if path in seen or not path.is_file():
        return
    seen.add(path)
    yield path
    for place in _imported(path, root):
        yield from _with_imports(place.with_name(f"{place.name}.py"), root, seen)
        if "site-packages" not in root.parts:
            for inner in _sources(place) if place.is_dir() else ():
                yield from _with_imports(inner, root, seen)


def _imported(path: Path, root: Path) -> set[Path]:
    """Return the paths of a file's imports below `root`; none where it cannot be parsed."""
    places: set[Path] = set()
    for node in ast.walk(_tree(path) or ast.Module([], [])):
        if isinstance(node, ast.Import):
            places |= {root / alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else root
            names = [node.module] if node.module else [alias.name for alias in node.names]
            places |= {base / name.partition(".")[0] for name in names}
    return {place for place in places if place.is_relative_to(root)}
