"""Parses paths of objectives and strategies, checks where their modules come from, and changes the import path."""

import contextlib
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Literal, Self, get_args

from hpo.errors import ConfigError
from hpo.package import ROOT

Form = Literal["task", "config", "config, trial", "trial"]
Origin = Literal["toolkit", "declared", "working directory", "given from Python"]

MODULE = "objective.pkl"
"""The name of the file with a study's pickled function. `ObjectivePath.module` of such a function has this value."""
GIVEN_DATA = "given_data"
"""The name of a folder inside a study's folder. The folder holds all rows that were passed from Python."""

# A package declares its objectives and strategies in these groups of entry points.
GROUPS = {"objective": "hpo.objectives", "strategy": "hpo.strategies"}
PYTHONPATH = "PYTHONPATH"
"""The environment variable for the folders from which another Python process imports."""

_TOOLKIT_MODULES = ("model.objective", "hpo.objectives")


@dataclass(frozen=True)
class ObjectivePath:
    """The path of an objective, such as `package.module:function`.

    If the function does not take a task, the path ends with the function's parameters, such as
    `package.module:function(config)`.

    Attributes:
        module: the name of the objective's module; `objective.pkl` for a pickled function.
        function: the name of the function in the module.
        form: the parameters of the function as text: "task" (see `Objective`), "config", "config, trial", or "trial"
            (as in Optuna).
    """

    module: str
    function: str
    form: Form

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse a path that the configuration has already validated."""
        module, _, call = text.partition(":")
        function, _, parameters = call.partition("(")
        forms: dict[str, Form] = {f"{form})": form for form in get_args(Form)} | {"": "task"}
        return cls(module, function, forms[parameters])

    @property
    def is_pickled(self) -> bool:
        """Whether the function is pickled, and not imported from a module."""
        return self.module == MODULE

    @property
    def owner(self) -> str:
        """The name to put before an optional function in messages: the name of the module or pickled function."""
        return self.function if self.is_pickled else self.module

    def __str__(self) -> str:
        return f"{self.module}:{self.function}{'' if self.form == 'task' else f'({self.form})'}"


@lru_cache(maxsize=256)
def origin_of(path: str, import_from: str | None, what: str = "objective") -> Origin:
    """Return where an objective or strategy comes from, without importing it.

    A configuration from another person must not be able to run an arbitrary function of a library. So the function of a
    library is allowed only if the library's package declares it as an objective or strategy.

    Args:
        path: the path of the objective or strategy.
        import_from: the folder to import from, such as the working directory.
        what: the configuration key that has the path, one of GROUPS.

    Raises:
        ConfigError: the origin is not allowed, the module is not found, or two modules have its name.
    """
    given = ObjectivePath.of(path)
    module, function = given.module, given.function
    if given.is_pickled:
        return "given from Python"
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        raise ConfigError(f"{what}: '{module}' is part of Python; give a module of your own")
    # The working directory may be the toolkit's own folder.
    here = import_from if import_from and not is_root(import_from) else None
    if any(_is_within(module, each) for each in _TOOLKIT_MODULES):
        own = _file_in(here, module) if top == "model" else None
        if own is not None:
            raise ConfigError(
                f"{what}: both the toolkit and the working directory ({own}) have a module '{module}'; to train with "
                f"yours, rename it; to train with the toolkit's, run from another folder"
            )
        return "toolkit"
    if top == "hpo" or (top == "model" and _file_in(here, top) is None):
        own = _file_in(here, top)
        hint = f"give {own} another name" if own else "give a module of your own"
        raise ConfigError(f"{what}: '{module}' is an internal module of hpo and not allowed here; {hint}")
    if _file_in(import_from, module) is not None:
        return "working directory"
    for declared in importlib.metadata.entry_points(group=GROUPS[what]):
        if _is_within(module, declared.module) and (not declared.attr or declared.attr == function):
            return "declared"
    if _file_in(import_from, top) is not None:
        # The user's package may create its modules when it is imported.
        return "working directory"
    if find_spec(top) is None:
        raise ConfigError(
            f"{what}: cannot import '{module}': there is no module '{top}' in the working directory, and no installed "
            f"package has this name; give package.module:function"
        )
    raise ConfigError(
        f"{what}: the package of '{module}' must declare the module as {'an' if what[0] in 'aeiou' else 'a'} {what}; "
        f"run from the package's folder, or declare the module in the package's pyproject.toml: "
        f'[project.entry-points."{GROUPS[what]}"] {top} = "{module}"'
    )


def refuse_another(module: ModuleType, origin: Origin, import_from: str | None, what: str = "objective") -> None:
    """Raise ConfigError if the imported module has the right name but is not from the expected folder."""
    file = getattr(module, "__file__", None)
    expected = {"toolkit": ROOT, "working directory": Path(import_from or "")}.get(origin)
    if expected is not None and file is not None and not Path(file).is_relative_to(expected):
        raise ConfigError(
            f"{what}: '{module.__name__}' must be imported from {expected}, but Python first finds another "
            f"module of this name, {file}; rename one of the two"
        )


def _file_in(folder: str | None, module: str) -> str | None:
    """Return the path of a module's file or folder in `folder`; None if it is not there. Do not import the module."""
    places, spec, name = [folder] if folder else [], None, ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, places) if places else None
        places = list(spec.submodule_search_locations or ()) if spec else []
    return (spec.origin or str(next(iter(spec.submodule_search_locations or ())))) if spec else None


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def is_root(folder: str) -> bool:
    """Return whether a folder is ROOT, the folder of the toolkit, even if the path has links."""
    return os.path.realpath(folder) == os.path.realpath(ROOT)


def path_without(folder: str) -> list[str]:
    """Return `sys.path` without the given folder; if this folder is ROOT, return the whole `sys.path`.

    The folder may contain a `model.py` or `hpo.py` of the user, which would hide the toolkit's package. If the working
    directory was deleted, relative entries are left out too.
    """
    unwanted = None if is_root(folder) else os.path.realpath(folder)
    entries = []
    for entry in sys.path:
        try:
            place = os.path.realpath(entry)
        except FileNotFoundError:
            # The entry is relative, and the working directory was deleted.
            continue
        if place != unwanted:
            entries.append(entry or place)
    return entries


def whole_path(folder: str) -> list[str]:
    """Return the entries of `path_without` as absolute paths, so that another process can import the same modules.

    If `sys.path` has a relative entry, also return the folders from which this process has imported modules, because
    the working directory may have changed since then. Never add `folder` itself.
    """
    entries = [str(Path(entry).absolute()) for entry in path_without(folder)]
    roots = [] if all(map(os.path.isabs, sys.path)) else [_root_of(module) for module in [*sys.modules.values()]]
    found = {root for root in roots if root is not None and os.path.realpath(root) != os.path.realpath(folder)}
    return list(dict.fromkeys([*sorted(found.difference(entries)), *entries]))


def _root_of(module: ModuleType) -> str | None:
    """Return the folder in which a top-level module was found; None for a submodule, or a module without a file."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or "." in module.__name__:
        return None
    folder = Path(file).parent
    return str(folder.parent if hasattr(module, "__path__") else folder)


@contextlib.contextmanager
def hide_folder(folder: str) -> Iterator[None]:
    """Hide a folder from imports within the block. Entries that the block adds to `sys.path` are kept."""
    before, without = sys.path[:], path_without(folder)
    sys.path[:] = without
    try:
        yield
    finally:
        sys.path[:] = before + [entry for entry in sys.path if entry not in without and entry not in before]


def put_first(folder: str) -> None:
    """Put the user's folder first on `sys.path`."""
    sys.path[:] = [folder, *(entry for entry in sys.path if entry != folder)]


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in a new Python process, whose `sys.path` lacks the working directory.

    Other Python programs that the module starts may still have the working directory on `sys.path`.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def path_variable(folder: str) -> dict[str, str]:
    """Return a PYTHONPATH for another Python process: the import path of this process without `folder`."""
    return {PYTHONPATH: os.pathsep.join(path_without(folder))}
