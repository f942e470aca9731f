"""The source files of a user's code, found without importing any, and whether one has changed since a search began."""

import ast
import functools
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from hpo.errors import MachineError
from hpo.package import ROOT

_DIGITS = 16
# Follows the name of a file that a training runs or reads, and does not import.
RUN = " (run)"


def files_with_imports(module: str) -> dict[str, Path]:
    """Return the source files of a module, and those that they import from the same folder, by their paths below it.

    They are all of its package, or a single module; none of the toolkit; of an installed package only its own.
    """
    top, file = _place_of(module.partition(".")[0]), _place_of(module)
    if top.name == "__init__.py":
        root, files = top.parent.parent, set(sources(top.parent))
    else:
        # A single module, or one in a package without an __init__.py, which imports from the same root.
        root = file.parents[module.count(".")]
        files = _with_imports([file], root)
    return {path.relative_to(root).as_posix(): path for path in _with_own_imports(files, root)}


def _place_of(module: str) -> Path:
    """Return the file of a module: where it was imported from, or where the working directory has it."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is not None:
        return Path(file)
    place = Path.cwd() / module.replace(".", "/")
    package = place / "__init__.py"
    return package if package.is_file() else place.with_suffix(".py")


def sources(place: Path) -> Iterator[Path]:
    """Yield all source files below a folder, without the dangling links that editors leave."""
    return (path for path in place.rglob("*.py") if path.is_file())


def _with_own_imports(files: Iterable[Path], root: Path) -> set[Path]:
    """Return files with what they import from the folder `root`, which is not the toolkit's; of a library nothing."""
    if "site-packages" in root.parts:
        return {*files}
    return _with_imports(files, root, apart=(ROOT / "hpo", ROOT / "model"))


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


def imports_module(files: Iterable[Path], name: str) -> bool:
    """Return whether one of these files imports a module of this name, or from it."""
    imported = (each for file in files if file.is_file() for each in _imports(file.read_bytes()))
    return any(level == 0 and each.partition(".")[0] == name for level, each in imported)


def parsed(source: bytes) -> ast.Module | None:
    """Return a source's syntax tree; None where it cannot be parsed."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def digests_of(module: str) -> dict[str, str]:
    """Return a hash of each source file of a user's module, by its path; docstrings and comments do not count."""
    return {name: _digest_of(path.read_bytes()) for name, path in sorted(files_with_imports(module).items())}


def digests_of_run(names: Iterable[str], folder: Path) -> dict[str, str]:
    """Return a hash of each of these files, by its path from the folder and `RUN`, and of what those of Python import.

    That is found in the file's own folder, in `folder` and on PYTHONPATH.
    """
    entries = [folder / entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    paths = {name: folder / name for name in names}
    for file in [path for path in paths.values() if path.suffix == ".py"]:
        imported = {file}
        for root in dict.fromkeys([file.parent, folder, *entries]):
            package = root / file.relative_to(root).parts[0] if file.is_relative_to(root) else None
            if package is not None and (package / "__init__.py").is_file():
                imported |= {*sources(package)}
            imported = _with_own_imports(imported, root)
        for path in imported - {*paths.values()}:
            paths[str(path.relative_to(folder) if path.is_relative_to(folder) else path)] = path
    return {f"{name}{RUN}": _digest_at(path, _stamp(path)) for name, path in sorted(paths.items())}


def digest(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_DIGITS]


def without_docstrings(tree: ast.Module) -> ast.Module:
    """Return the tree, which is changed."""
    for node in bodies(tree):
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def bodies(tree: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield a module, and all definitions inside it."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return (node for node in ast.walk(tree) if isinstance(node, kinds))


# A process opens several studies, or imports after it has opened one, and to parse a file takes milliseconds.
@functools.lru_cache(maxsize=512)
def _digest_of(source: bytes) -> str:
    """Return a hash of what a file does, its imports and their order included; of a file that is no Python, of all."""
    tree = parsed(source)
    return digest(hashlib.sha256(source).hexdigest() if tree is None else ast.unparse(without_docstrings(tree)))


# A program may be large, or many files, and is looked at before and after each training.
@functools.lru_cache(maxsize=1024)
def _digest_at(path: Path, _stamp: tuple[int, int] | None) -> str:
    source = path.read_bytes()
    return _digest_of(source) if path.suffix == ".py" else digest(hashlib.sha256(source).hexdigest())


class CodeWatch:
    """Compares what this process imports with the code that a search began with; `files` are the digests of below."""

    def __init__(self, files: Mapping[str, str], folder: str) -> None:
        self._folder = folder
        self._run = {name.removesuffix(RUN): digest for name, digest in files.items() if name.endswith(RUN)}
        imported = {name: digest for name, digest in files.items() if not name.endswith(RUN)}
        self._left = {_module_of(name): (name, digest) for name, digest in imported.items()}
        self._before = {path: _stamp(path) for path in (Path(folder, name) for name in imported)}

    def refuse_changed(self, has_failed: bool = False) -> None:
        """Raise MachineError where a file is another than it was, of those imported since the last call.

        A task imports the objective's modules first, and any others while it trains. After its failure, which an import
        may have been, files count that are not imported. At the first call a file counts as another that was written
        since this object was made: what was imported is not known then. Files that are run are compared at each call.
        """
        for name, digest in self._run.items():
            script = Path(self._folder, name)
            # What is missing makes the training fail.
            if _digest_at(script, _stamp(script)) != digest if script.is_file() else has_failed:
                raise _changed(name, "; if trainings write it, start the study anew without that file")
        before, self._before = self._before, {}
        for module in [module for module in self._left if has_failed or module in sys.modules]:
            name, digest = self._left[module]
            path = self._path_of(module, name)
            if path is None:
                continue
            is_written = before.get(path, _stamp(path)) != _stamp(path)
            if is_written or not path.is_file() or _digest_of(path.read_bytes()) != digest:
                # In a process that lives on, such as a notebook's, it is imported anew once that is undone.
                sys.modules.pop(module, None)
                raise _changed(name)
            if module in sys.modules:
                del self._left[module]

    def _path_of(self, module: str, name: str) -> Path | None:
        """Return a module's file; None where there is none, or a library's module of that name was found first."""
        here, file = Path(self._folder, name), getattr(sys.modules.get(module), "__file__", None)
        if file is None:
            return here if here.is_file() else None
        return None if here.is_file() and here.resolve() != Path(file).resolve() else Path(file)


def _changed(name: str, besides: str = "") -> MachineError:
    return MachineError(
        f"objective: {name} has changed while the search runs: undo that, or resume with --allow-changes{besides}"
    )


def code_watch(files: Mapping[str, str] | None, folder: str) -> CodeWatch:
    """Return what compares this code in this process: each file once, however many tasks there are."""
    return _code_watch(tuple((files or {}).items()), folder)


@functools.lru_cache(maxsize=16)
def _code_watch(files: tuple[tuple[str, str], ...], folder: str) -> CodeWatch:
    return CodeWatch(dict(files), folder)


def _module_of(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_mtime_ns, there.st_size
