"""Collects the user's code for the nodes of a cluster, and compares the versions of other code on the nodes.

The other code is Python, torch, NumPy, the toolkit, and the installed package that contains the objective.
"""

import contextlib
import hashlib
import importlib.util
import math
import shutil
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpo.errors import DispatchError
from hpo.formatting import format_size
from hpo.machine import PYTHON, version_of
from hpo.package import PACKAGE, ROOT
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.path import ObjectivePath, origin_of
from hpo.workers.objective.source_files import files_with_imports

# More than any code alone needs. Ray itself refuses more than 500 MiB.
MOST_BYTES = 100 * 2**20
# Folders that tools create, and that do not belong to a package.
_IGNORED = ("__pycache__", ".git")
_PROJECT = "pyproject.toml"
_MOST_NAMES = 3  # the most file names to list in a message
# Results depend on the versions of these libraries.
_LIBRARIES = ("torch", "numpy")
_DIGITS = 12


@dataclass(frozen=True)
class Code:
    """The code of an objective, without the code of the toolkit.

    Attributes:
        files: the files to send, by their paths relative to the folder from which they are imported.
        package: the installed package that declares the objective; it must be equal on every node. None = the
            objective is in the toolkit or in the working directory, or is pickled.
        others: names of other files in the objective's packages. These files are not sent.
        links: names of links that lead out of the packages or the working directory. These links are not sent.
    """

    files: Mapping[str, Path] = field(default_factory=dict)
    package: str | None = None
    others: Sequence[str] = ()
    links: Sequence[str] = ()

    @property
    def size(self) -> int:
        """The size of the files to send, in bytes."""
        return sum(path.stat().st_size for path in self.files.values())

    def in_words(self) -> str:
        """Return one line that says which files are sent and which are not."""
        line = f"your code goes to the nodes: {_count(self.files, 'file')}, {math.ceil(self.size / 1024):,} KiB"
        line += f" ({', '.join([*self.files][:_MOST_NAMES])}{', ...' if len(self.files) > _MOST_NAMES else ''})"
        if self.others:
            line += (
                f"; not sent: {_count(self.others, 'other file')} of the package, such as {self.others[0]} (declare "
                f"needed files in {_PROJECT}, [tool.setuptools.package-data])"
            )
        if self.links:
            line += f"; not sent: {_count(self.links, 'link')} to another folder, such as {self.links[0]}"
        return line


def code_of(objective: Objective, import_from: str) -> Code:
    """Return the code of an objective.

    The code of an objective in the working directory consists of:

    - the module of the objective, or all modules that the objective uses if it is a pickled function;
    - all Python files of the packages that contain these modules;
    - all files that these modules and packages import from the working directory;
    - the package data that the packages declare.

    The code of an objective in the toolkit is empty. The code of an objective in an installed package has no files, but
    names the package.

    Args:
        objective: the objective.
        import_from: the working directory.

    Raises:
        DispatchError: the declaration of package data cannot be read or is not valid.
    """
    given = ObjectivePath.of(objective.path)
    origin = origin_of(objective.path, import_from)
    if origin == "toolkit":
        return Code()
    if origin == "declared":
        return Code(package=given.module.partition(".")[0])
    modules = [given.module] if objective.pickled is None else objective.pickled.modules
    found: dict[str, Path] = {}
    for module in modules:
        found |= files_with_imports(module)
    here = Path(import_from)
    tops = {name.partition("/")[0] for name in found if "/" in name}
    packages = [here / top for top in sorted(tops) if (here / top / "__init__.py").is_file()]
    found |= {path.relative_to(here).as_posix(): path for path in _declared(here, packages)}
    found = {name: path for name, path in sorted(found.items()) if not _is_hidden(name)}
    in_packages = {path.relative_to(here).as_posix() for package in packages for path in _files(package)}
    files = {name: path for name, path in found.items() if _is_inside(path, name, here)}
    # Sort hidden files to the end, because a package rarely needs them.
    others = sorted(in_packages - found.keys(), key=lambda name: (_is_hidden(name), name))
    return Code(files, None, others, sorted(found.keys() - files.keys()))


@contextlib.contextmanager
def staged(code: Code) -> Iterator[Path | None]:
    """Yield a folder with copies of the code's files, or None for code without files.

    Raises:
        DispatchError: the files are too large.
    """
    if not code.files:
        yield None
        return
    if code.size > MOST_BYTES:
        largest = max(code.files, key=lambda name: code.files[name].stat().st_size)
        raise DispatchError(
            f"dispatch.address: the objective's package must be at most {format_size(MOST_BYTES)} to be sent to the "
            f"nodes, given {format_size(code.size)}; move {largest}, the largest file, elsewhere, or do not declare it "
            f"as package data"
        )
    with tempfile.TemporaryDirectory(prefix="hpo-code-") as name:
        for place, path in code.files.items():
            target = Path(name, place)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        yield Path(name)


def _declared(here: Path, packages: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that these packages declare as package data, by the rules of setuptools."""
    for name, patterns in _package_data(here / _PROJECT).items():
        inside = (Path(package, *name.split(".")[1:]) for package in packages if package.name == name.partition(".")[0])
        everywhere = (path.parent for package in packages for path in package.rglob("__init__.py"))
        for folder in everywhere if name in ("*", "") else inside:
            for pattern in patterns:
                yield from (path for path in folder.glob(pattern) if path.is_file())


def _package_data(project: Path) -> dict[str, list[str]]:
    if not project.is_file():
        return {}
    try:
        declared = tomllib.loads(project.read_text(encoding="utf-8"))
        data = declared.get("tool", {}).get("setuptools", {}).get("package-data", {})
        read = {name: [Path(pattern) for pattern in list[str](patterns)] for name, patterns in data.items()}
        patterns = [pattern for given in read.values() for pattern in given]
        refused = [str(pattern) for pattern in patterns if pattern.is_absolute() or ".." in pattern.parts]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DispatchError(
            f"{project.name}: tool.setuptools.package-data (files to send to the nodes) cannot be read: {error}; "
            "correct the file"
        ) from error
    if refused or any(isinstance(patterns, str) for patterns in data.values()):
        given = f"{refused[0]!r}" if refused else "a text"
        raise DispatchError(
            f"{project.name}: tool.setuptools.package-data must map each package to a list of patterns, such as "
            f'my_package = ["*.txt"], given {given}'
        )
    return {name: [str(pattern) for pattern in patterns] for name, patterns in read.items()}


def _files(package: Path) -> Iterator[Path]:
    """Yield the files of a package, except files in folders that tools create."""
    return (path for path in package.rglob("*") if path.is_file() and not set(_IGNORED) & set(path.parts))


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _is_inside(path: Path, name: str, here: Path) -> bool:
    """Return whether a file is still in its package after links are resolved.

    A file without a package must be in the working directory.
    """
    root, top = path.parents[name.count("/")], name.partition("/")[0]
    return path.resolve().is_relative_to(root.resolve() / top if "/" in name else here.resolve())


def _count(things: Collection[object], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def describe(package: str | None) -> dict[str, str]:
    """Return the versions of Python, torch, NumPy, the toolkit and `package` on this machine, by name.

    The version is `none` for software that is not installed. The toolkit's version includes a hash of its code. The
    version of `package` is only the hash of its code.
    """
    versions = {"Python": PYTHON}
    for library in _LIBRARIES:
        # Treat builds for CPUs and GPUs, such as 2.13.0+cpu and 2.13.0+cu130, as the same version.
        versions[library] = (version_of(library) or "none").partition("+")[0]
    versions["hpo"] = f"{version_of('hpo-transformer') or 'none'} (code {_digest((PACKAGE, ROOT / 'model'))})"
    if package is not None:
        spec = importlib.util.find_spec(package)
        places = spec.submodule_search_locations or [spec.origin or ""] if spec else []
        versions[package] = f"of code {_digest(map(Path, places))}" if places else "none"
    return versions


def refuse_unlike(own: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise DispatchError if a node cannot import hpo, or has other versions of Python or packages than this machine.

    Args:
        own: the versions of this machine; see `describe`.
        found: the versions of the node; see `hpo.workers.dispatch.ray.worker.describe_node`.
    """
    node = found["node"]
    if "error" in found:
        raise DispatchError(f"dispatch.address: node {node} cannot import hpo: {found['error']}; install hpo there")
    for name, version in own.items():
        if (other := found.get(name, "none")) != version:
            raise DispatchError(
                f"dispatch.address: node {node} must have the same {name} as this machine ({version}), given {other}; "
                f"install the same version on both machines"
            )


def _digest(places: Iterable[Path]) -> str:
    """Return a hash of the names and contents of all Python files in `places`; each place is a folder or a file."""
    digest = hashlib.sha256()
    for place in places:
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        for file in files:
            digest.update(f"{file.relative_to(place)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:_DIGITS]
