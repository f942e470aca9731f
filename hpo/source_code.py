"""The code that decides what a trial comes to: the objective's, this package's, and the versions of libraries."""

import ast
import hashlib
import importlib.metadata
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

# Rooms of this package that show, compare or carry what was found, and decide nothing.
_UNDECISIVE = ("cli", "compare", "dispatch", "exchange", "integrations", "report", "track")
# Libraries in which points and trainings are computed.
_LIBRARIES = ("cmaes", "numpy", "optuna", "scikit-learn", "tokenizers", "torch")
_DIGITS = 16


def describe_code(objective: str) -> dict[str, str]:
    """Return a hash for each source file, by its path in its package, and a version for each library.

    Args:
        objective: dotted path `package.module:function` of one that has been imported. All of its package counts, or
            where it is a single module, that and the modules beside it that it imports.
    """
    files = {**_package_files(Path(__file__).parent, _UNDECISIVE), **_objective_files(objective.partition(":")[0])}
    code = {name: hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS] for name, path in sorted(files.items())}
    code["python"] = ".".join(platform.python_version_tuple()[:2])
    for library in _LIBRARIES:
        try:
            code[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return code


def _objective_files(module: str) -> dict[str, Path]:
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return {}
    top = sys.modules.get(module.partition(".")[0])
    if "." not in module or getattr(top, "__file__", None) is None:
        return {path.name: path for path in _with_imports(Path(file), set())}
    assert top is not None
    assert top.__file__ is not None
    return _package_files(Path(top.__file__).parent, _UNDECISIVE if top.__name__ == __package__ else ())


def _package_files(folder: Path, without: tuple[str, ...]) -> dict[str, Path]:
    paths = (path for path in folder.rglob("*.py") if path.relative_to(folder).parts[0] not in without)
    return {path.relative_to(folder.parent).as_posix(): path for path in paths}


def _with_imports(path: Path, seen: set[Path]) -> Iterator[Path]:
    """Yield a module's file, and those beside it that it imports, wherever in it."""
    if path in seen or not path.is_file():
        return
    seen.add(path)
    yield path
    for node in ast.walk(ast.parse(path.read_bytes())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        for name in names:
            yield from _with_imports(path.with_name(f"{name.partition('.')[0]}.py"), seen)
