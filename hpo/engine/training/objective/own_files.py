"""The source files of a user's objective, found without importing anything."""

import ast
import functools
import sys
from collections.abc import Iterable, Iterator, Sequence
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
    return _named(_with_imports([file], root), root)


def files_with_imports(module: str) -> dict[str, Path]:
    """Return the files of `files_of`, and those that they import from the same folder; of the toolkit none.

    Of an installed package only its own: what else is installed is known by its version.
    """
    files = files_of(module)
    if not files:
        return files
    place, path = next(iter(files.items()))
    root = path.parents[place.count("/")]
    if "site-packages" in root.parts:
        return files
    return _named(_with_imports(files.values(), root, apart=(ROOT / "hpo", ROOT / "model")), root)


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


def _with_imports(files: Iterable[Path], root: Path, apart: Sequence[Path] = ()) -> set[Path]:
    """Return files, and those that they import from the folder `root`, recursively; none below the folders `apart`."""
    left, seen, places = list(files), set[Path](), set[Path]()
    while left:
        path = left.pop()
        if path in seen or not path.is_file() or any(path.is_relative_to(folder) for folder in apart):
            continue
        seen.add(path)
        new = _imported(path, root) - places - {*apart}
        places |= new
        left += [place.with_name(f"{place.name}.py") for place in new]
        if "site-packages" not in root.parts:
            left += [inner for place in new if place.is_dir() for inner in sources(place)]
    return seen


def _imported(path: Path, root: Path) -> set[Path]:
    """Return the paths of a file's imports below `root`; none where it cannot be parsed."""
    places: set[Path] = set()
    for level, name in _imports(path.read_bytes()):
        base = path.parents[level - 1] if 0 < level <= len(path.parents) else root
        places.add(base / name.partition(".")[0])
    return {place for place in places if place.is_relative_to(root)}


# A process opens several studies, and to parse a file takes milliseconds.
@functools.lru_cache(maxsize=1024)
def _imports(source: bytes) -> Sequence[tuple[int, str]]:
    """Return the names that a source imports, each with its level: 0, or how many folders up, counted from 1."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(parsed(source) or ast.Module([], [])):
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found += [(node.level, name) for name in names]
    return found


def tree_of(path: Path) -> ast.Module | None:
    """Return a file's syntax tree; None where it cannot be parsed."""
    return parsed(path.read_bytes())


def parsed(source: bytes) -> ast.Module | None:
    """Return a source's syntax tree; None where it cannot be parsed."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
