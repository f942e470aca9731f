"""The code that decides what a trial comes to: the objective's, this package's, and the versions of libraries."""

import ast
import hashlib
import importlib.metadata
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

# What of this package decides points, and what becomes of them; the rest asks, shows, compares or carries.
DECISIVE = (
    *("constraints.py", "dimensions.py", "examples.py", "final.py", "finalists.py", "first_points.py", "history.py"),
    *("keys.py", "objective.py", "objectives", "race.py", "round.py", "search.py", "space.py", "space_reader.py"),
    *("splits.py", "strategies", "tasks.py", "trials.py", "worker.py"),
)
# Libraries in which points and trainings are computed, and scores.
_LIBRARIES = ("cmaes", "numpy", "optuna", "sacrebleu", "scikit-learn", "scipy", "tokenizers", "torch")
_DIGITS = 16


def describe_code(objective: str) -> dict[str, str]:
    """Return a hash for each source file, by its path in its package, and a version for each library.

    Args:
        objective: dotted path `package.module:function` of one that has been imported. All of its package counts, or
            where it is a single module, that and the modules and packages beside it that it imports.
    """
    own = Path(__file__).parent
    files = _named({path for name in DECISIVE for path in _sources(own / name)}, own.parent)
    files |= _objective_files(objective.partition(":")[0])
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
    package = module.partition(".")[0]
    if file is None or package == __package__:
        return {}
    top = getattr(sys.modules.get(package), "__file__", None)
    if top is not None and Path(top).name == "__init__.py":
        folder = Path(top).parent
        return _named(set(_sources(folder)), folder.parent)
    # A single module, or one in a package without an __init__.py, which imports from beside that.
    root = Path(file).parents[module.count(".")]
    return _named(set(_with_imports(Path(file), root, set())), root)


def _named(paths: set[Path], root: Path) -> dict[str, Path]:
    return {path.relative_to(root).as_posix(): path for path in paths}


def _sources(place: Path) -> Iterator[Path]:
    """Yield a source file, or all below a folder; editors leave links there that lead nowhere."""
    paths = place.rglob("*.py") if place.is_dir() else [place]
    return (path for path in paths if path.is_file())


def _with_imports(path: Path, root: Path, seen: set[Path]) -> Iterator[Path]:
    """Yield a module's file, and those that it imports from the folder `root`, wherever in it."""
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
    """Return where below `root` a file's imports would lie; none where it is compiled, or for another Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return set()
    places: set[Path] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            places |= {root / alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else root
            names = [node.module] if node.module else [alias.name for alias in node.names]
            places |= {base / name.partition(".")[0] for name in names}
    return {place for place in places if place.is_relative_to(root)}
