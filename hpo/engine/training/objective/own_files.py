"""The source files of a user's objective, found without importing anything."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from hpo.engine.training.objective.modules import ROOT


def files_of(module: str) -> dict[str, Path]:
    """Return the source files of a module by their paths below the folder that it is imported from.

    All of its package; of a single module, the module and the modules and packages in its folder that it imports.
    """
    top, file = _place_of(module.partition(".")[0]), _place_of(module)
    if top.name == "__init__.py":
        return _named(set(sources(top.parent)), top.parent.parent)
    # A single module, or one in a package without an __init__.py, which imports from the same root.
    root = file.parents[module.count(".")]
    return _named(set(_with_imports(file, root, set())), root)


def files_with_imports(module: str) -> dict[str, Path]:
    """Return the files of `files_of`, and those that they import from the same folder; of the toolkit none.

    Of an installed package only its own: what else is installed is known by its version.
    """
    files = files_of(module)
    if not files:
        return files
    place, path = next(iter(files.items()))
    root, seen = path.parents[place.count("/")], set[Path]()
    if "site-packages" in root.parts:
        return files
    for file in files.values():
        for _ in _with_imports(file, root, seen):
            pass
    ours = (ROOT / "hpo", ROOT / "model")
    return _named({file for file in seen if not any(file.is_relative_to(folder) for folder in ours)}, root)


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


def sources(place: Path) -> Iterator[Path]:
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
            for inner in sources(place) if place.is_dir() else ():
                yield from _with_imports(inner, root, seen)


def _imported(path: Path, root: Path) -> set[Path]:
    """Return the paths of a file's imports below `root`; none where it cannot be parsed."""
    places: set[Path] = set()
    for node in ast.walk(tree_of(path) or ast.Module([], [])):
        if isinstance(node, ast.Import):
            places |= {root / alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else root
            names = [node.module] if node.module else [alias.name for alias in node.names]
            places |= {base / name.partition(".")[0] for name in names}
    return {place for place in places if place.is_relative_to(root)}


def tree_of(path: Path) -> ast.Module | None:
    """Return a file's syntax tree; None where it cannot be parsed."""
    return parsed(path.read_bytes())


def parsed(source: bytes) -> ast.Module | None:
    """Return a source's syntax tree; None where it cannot be parsed."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
