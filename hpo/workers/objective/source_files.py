"""Finds the source files of a user's code without importing them, and detects changes while a search runs."""

import ast
import functools
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from hpo.errors import MachineError
from hpo.files import file_stamp
from hpo.package import ROOT

_DIGITS = 16
# This suffix marks the names of files that a training runs or reads, but does not import.
RUN = " (run)"


def files_with_imports(module: str) -> dict[str, Path]:
    """Return the paths of a module's source files, and of the files that they import from the same folder.

    The keys of the dict are the same paths, relative to the folder from which the module is imported. If the module is
    in a package, all files of the package are returned. Files of the toolkit are left out. If the package is installed,
    imported files outside the package are left out.
    """
    top, file = _place_of(module.partition(".")[0]), _place_of(module)
    if top.name == "__init__.py":
        root, files = top.parent.parent, set(sources(top.parent))
    else:
        # The module is not in a package, or the package has no __init__.py. Its imports are searched from this folder.
        root, files = file.parents[module.count(".")], {file}
    is_installed_package = top.name == "__init__.py" and "site-packages" in root.parts
    found = files if is_installed_package else _with_imports(files, root)
    return {path.relative_to(root).as_posix(): path for path in found}


def _place_of(module: str) -> Path:
    """Return a module's file; if the module is not imported yet, its path in the working directory."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is not None:
        return Path(file)
    place = Path.cwd() / module.replace(".", "/")
    package = place / "__init__.py"
    return package if package.is_file() else place.with_suffix(".py")


def sources(place: Path) -> Iterator[Path]:
    """Yield all Python files below a folder. Skip dangling links, which some editors leave behind."""
    return (path for path in place.rglob("*.py") if path.is_file())


def _with_imports(files: Iterable[Path], root: Path) -> set[Path]:
    """Return these files and, recursively, the files that they import from `root`. Leave out the toolkit."""
    excluded = (ROOT / "hpo", ROOT / "model")
    left, found, places = list(files), set[Path](), set[Path]()
    while left:
        path = left.pop()
        if path in found or not path.is_file() or any(path.is_relative_to(folder) for folder in excluded):
            continue
        found.add(path)
        new = _imported(path, root) - places - {*excluded}
        places |= new
        left += [place.with_name(f"{place.name}.py") for place in new]
        if "site-packages" not in root.parts:
            left += [inner for place in new if place.is_dir() for inner in sources(place)]
    return found


def _imported(path: Path, root: Path) -> set[Path]:
    """Return the modules and packages below `root` that a file may import, as paths without the ending `.py`."""
    places: set[Path] = set()
    for level, name in _imports(path.read_bytes()):
        base = path.parents[level - 1] if 0 < level <= len(path.parents) else root
        places.add(base / name.partition(".")[0])
    return {place for place in places if place.is_relative_to(root)}


# Cache, because a process may open several studies and parsing a file takes milliseconds.
@functools.lru_cache(maxsize=1024)
def _imports(source: bytes) -> Sequence[tuple[int, str]]:
    """Return the level and the name of each import; the level is the number of leading dots, 0 = absolute import."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(parsed(source) or ast.Module([], [])):
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found += [(node.level, name) for name in names]
    return found


def imports_module(files: Iterable[Path], name: str) -> bool:
    """Return whether any of these files imports the module with this name, or anything from that module."""
    imported = (each for file in files if file.is_file() for each in _imports(file.read_bytes()))
    return any(level == 0 and each.partition(".")[0] == name for level, each in imported)


def parsed(source: bytes) -> ast.Module | None:
    """Return the syntax tree of a source; None = the source cannot be parsed."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def digests_of(module: str) -> dict[str, str]:
    """Return a hash of each source file of a user's module, by path. Docstrings and comments do not change the hash."""
    return {name: _digest_of(path.read_bytes()) for name, path in sorted(files_with_imports(module).items())}


def digests_of_run(names: Iterable[str], folder: Path) -> dict[str, str]:
    """Return the hash of each of these files, and of each file that they import.

    The key of a hash is the path of the file, followed by the suffix `RUN`. Paths are relative to `folder`; an imported
    file outside `folder` has an absolute path. The files that a Python file imports are searched for in the Python
    file's folder, in `folder` and on PYTHONPATH.
    """
    entries = [folder / entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    paths = {name: folder / name for name in names}
    for file in [path for path in paths.values() if path.suffix == ".py"]:
        imported = {file}
        for root in dict.fromkeys([file.parent, folder, *entries]):
            package = root / file.relative_to(root).parts[0] if file.is_relative_to(root) else None
            if package is not None and (package / "__init__.py").is_file():
                imported |= {*sources(package)}
            if "site-packages" not in root.parts:
                imported = _with_imports(imported, root)
        for path in imported - {*paths.values()}:
            paths[str(path.relative_to(folder) if path.is_relative_to(folder) else path)] = path
    return {f"{name}{RUN}": _digest_at(path, file_stamp(path)) for name, path in sorted(paths.items())}


def digest(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_DIGITS]


def without_docstrings(tree: ast.Module) -> ast.Module:
    """Remove the docstrings from the tree and return it."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


# Cache, because a process may compare its imports with several studies, and parsing a file takes milliseconds.
@functools.lru_cache(maxsize=512)
def _digest_of(source: bytes) -> str:
    """Return a hash of Python code without its docstrings and comments, or of the whole file if it is not Python."""
    tree = parsed(source)
    return digest(hashlib.sha256(source).hexdigest() if tree is None else ast.unparse(without_docstrings(tree)))


# Cache, because a program may have large or many files, and they are compared before and after each training.
@functools.lru_cache(maxsize=1024)
def _digest_at(path: Path, _stamp: tuple[int, int] | None) -> str:
    source = path.read_bytes()
    return _digest_of(source) if path.suffix == ".py" else digest(hashlib.sha256(source).hexdigest())


class CodeWatch:
    """Detects that a source file has changed since the start of the search.

    Args:
        files: each file's hash at the start of the search, by path relative to `folder`.
        folder: the working directory.
    """

    def __init__(self, files: Mapping[str, str], folder: str) -> None:
        self._folder = folder
        self._run = {name.removesuffix(RUN): digest for name, digest in files.items() if name.endswith(RUN)}
        imported = {name: digest for name, digest in files.items() if not name.endswith(RUN)}
        self._left = {_module_of(name): (name, digest) for name, digest in imported.items()}
        self._before = {path: file_stamp(path) for path in (Path(folder, name) for name in imported)}

    def refuse_changed(self, has_failed: bool = False) -> None:
        """Raise MachineError if a file has changed since the start of the search.

        Call this method before and after a training, because a training may import further modules. Each call checks
        these files:

        - The modules that were imported since the previous call.
        - All files that a training runs or reads, but does not import.
        - If `has_failed`, also the modules that have not been imported yet. The training may have failed because it
          could not import a changed module.

        The first call also raises MachineError if an imported file was written after this object was created. The
        import may have read other content than the file has now.

        Args:
            has_failed: whether the training has failed.
        """
        for name, digest in self._run.items():
            script = Path(self._folder, name)
            # A missing file is a change only if the training failed.
            if _digest_at(script, file_stamp(script)) != digest if script.is_file() else has_failed:
                hint = f"; if trainings write {name}, start a new study with a command that does not name {name}"
                raise _changed(name, hint)
        before, self._before = self._before, {}
        for module in [module for module in self._left if has_failed or module in sys.modules]:
            name, digest = self._left[module]
            path = self._path_of(module, name)
            if path is None:
                continue
            is_written = before.get(path, file_stamp(path)) != file_stamp(path)
            if is_written or not path.is_file() or _digest_of(path.read_bytes()) != digest:
                # If the process continues, as in a notebook, the user's fixed module must be imported again.
                sys.modules.pop(module, None)
                raise _changed(name)
            if module in sys.modules:
                del self._left[module]

    def _path_of(self, module: str, name: str) -> Path | None:
        """Return a module's file; None = there is no file, or Python has imported another module with this name."""
        here, file = Path(self._folder, name), getattr(sys.modules.get(module), "__file__", None)
        if file is None:
            return here if here.is_file() else None
        return None if here.is_file() and here.resolve() != Path(file).resolve() else Path(file)


def _changed(name: str, hint: str = "") -> MachineError:
    return MachineError(
        f"objective: {name} has changed while the search runs; undo the change, or run "
        f"`hpo resume --allow-changes`{hint}"
    )


@functools.lru_cache(maxsize=16)
def code_watch(files: tuple[tuple[str, str], ...], folder: str) -> CodeWatch:
    """Return the `CodeWatch` for these files and their hashes.

    All tasks of a process share this object, so it usually compares an imported file with the file's hash only once.
    """
    return CodeWatch(dict(files), folder)


def _module_of(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
