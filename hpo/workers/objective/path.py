"""The path of an objective or a strategy, where its module may come from, and what Python imports from there."""

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
"""The file of a study that holds a function given from Python, and what stands for a module in its path."""
GIVEN_DATA = "given_data"
"""The folder beside that file with all rows that a search was given with its function."""

# The groups of entry points by which a package declares what a configuration may name.
GROUPS = {"objective": "hpo.objectives", "strategy": "hpo.strategies"}
PYTHONPATH = "PYTHONPATH"
"""The variable in which another Python finds folders to import from."""

_OURS = ("model.objective", "hpo.objectives")


@dataclass(frozen=True)
class ObjectivePath:
    """What the text of an objective says: `package.module:function`, and for plain functions what they take."""

    module: str  # its module; `objective.pkl` for a function that was given from Python and is kept with its study
    function: str  # its name there
    # `f(task)`, as in `Objective`; or, written behind the name, `f(config)`, `f(config, trial)`, or `f(trial)` of
    # Optuna's shape.
    form: Form

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a text that the configuration accepts."""
        module, _, call = text.partition(":")
        function, _, taken = call.partition("(")
        forms: dict[str, Form] = {f"{form})": form for form in get_args(Form)} | {"": "task"}
        return cls(module, function, forms[taken])

    @property
    def is_kept(self) -> bool:
        """Whether no module has the function."""
        return self.module == MODULE

    @property
    def owner(self) -> str:
        """What has its optional functions, as a user calls it: its module, or itself where no module has it."""
        return self.function if self.is_kept else self.module

    def __str__(self) -> str:
        return f"{self.module}:{self.function}{'' if self.form == 'task' else f'({self.form})'}"


@lru_cache(maxsize=256)
def origin_of(path: str, import_from: str | None, what: str = "objective") -> Origin:
    """Return where an objective or strategy comes from, without importing it; ConfigError where that is not allowed.

    A configuration may come from a stranger, and any function of any library would be run: so only what is meant as an
    objective, or a strategy, is allowed. `what` is the key that names it, one of GROUPS.
    """
    given = ObjectivePath.of(path)
    module, function = given.module, given.function
    if given.is_kept:
        return "given from Python"
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        raise ConfigError(f"{what}: '{module}' is part of Python; name a module of yours")
    # The toolkit's own folder is a working directory too.
    here = import_from if import_from and not is_root(import_from) else None
    if any(_is_within(module, ours) for ours in _OURS):
        own = _file_in(here, module) if top == "model" else None
        if own is not None:
            raise ConfigError(
                f"{what}: '{module}' is both the toolkit's and {own}, in the working directory; give yours another "
                f"name to train with it, or run from another folder to train with the toolkit's"
            )
        return "toolkit"
    if top == "hpo" or (top == "model" and _file_in(here, top) is None):
        own = _file_in(here, top)
        hint = f"give {own} another name" if own else "name a module of yours"
        raise ConfigError(f"{what}: '{module}' is part of hpo and nothing to be named here; {hint}")
    if _file_in(import_from, module) is not None:
        return "working directory"
    for declared in importlib.metadata.entry_points(group=GROUPS[what]):
        if _is_within(module, declared.module) and (not declared.attr or declared.attr == function):
            return "declared"
    if _file_in(import_from, top) is not None:
        # A package of the user's may make its modules when it is imported.
        return "working directory"
    if find_spec(top) is None:
        raise ConfigError(
            f"{what}: cannot import '{module}': there is no module '{top}' in the working directory, and no package "
            f"of that name; allowed is package.module:function"
        )
    raise ConfigError(
        f"{what}: '{module}' is in a package that does not declare it for that; run from its own folder, "
        f'or declare it in its pyproject.toml: [project.entry-points."{GROUPS[what]}"] {top} = "{module}"'
    )


def refuse_another(module: ModuleType, origin: Origin, import_from: str | None, what: str = "objective") -> None:
    """Raise ConfigError where another module of that name was imported."""
    file = getattr(module, "__file__", None)
    expected = {"toolkit": ROOT, "working directory": Path(import_from or "")}.get(origin)
    if expected is not None and file is not None and not Path(file).is_relative_to(expected):
        raise ConfigError(
            f"{what}: '{module.__name__}' is {file} here, which comes before the one in {expected}; rename yours"
        )


def _file_in(folder: str | None, module: str) -> str | None:
    """Return the file, or the folder, of a module in this folder, without importing anything; None where none is."""
    places, spec, name = [folder] if folder else [], None, ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, places) if places else None
        places = list(spec.submodule_search_locations or ()) if spec else []
    return (spec.origin or str(next(iter(spec.submodule_search_locations or ())))) if spec else None


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def is_root(folder: str) -> bool:
    """Return whether a folder is ROOT, under whatever name."""
    return os.path.realpath(folder) == os.path.realpath(ROOT)


def path_without(folder: str) -> list[str]:
    """Return `sys.path` without a folder, in which a user may have a `model.py` or `hpo.py`; but never without ROOT."""
    in_the_way = None if is_root(folder) else os.path.realpath(folder)
    kept = []
    for entry in sys.path:
        try:
            place = os.path.realpath(entry)
        except FileNotFoundError:
            # A relative entry, and the working directory was deleted.
            continue
        if place != in_the_way:
            kept.append(entry or place)
    return kept


def whole_path(folder: str) -> list[str]:
    """Return `path_without` a folder, each entry as a whole path: what this process can import, for another one.

    What a relative entry stood for when a module was found there comes first: the working directory may have changed.
    """
    entries = [str(Path(entry).absolute()) for entry in path_without(folder)]
    roots = [] if all(map(os.path.isabs, sys.path)) else [_root_of(module) for module in [*sys.modules.values()]]
    found = {root for root in roots if root is not None and os.path.realpath(root) != os.path.realpath(folder)}
    return list(dict.fromkeys([*sorted(found.difference(entries)), *entries]))


def _root_of(module: ModuleType) -> str | None:
    """Return the folder in which a module was found; None for one inside a package, or without a file."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or "." in module.__name__:
        return None
    folder = Path(file).parent
    return str(folder.parent if hasattr(module, "__path__") else folder)


@contextlib.contextmanager
def out_of_the_way(folder: str) -> Iterator[None]:
    """Import without this folder inside; what is imported inside may still add to the path."""
    before, without = sys.path[:], path_without(folder)
    sys.path[:] = without
    try:
        yield
    finally:
        sys.path[:] = before + [entry for entry in sys.path if entry not in without and entry not in before]


def put_first(folder: str) -> None:
    """Let what a user wrote be found before all else."""
    sys.path[:] = [folder, *(entry for entry in sys.path if entry != folder)]


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module without the working directory on its path; what it starts has it again."""
    return [sys.executable, "-P", "-m", module, *arguments]


def path_variable(folder: str) -> dict[str, str]:
    """Return the variable by which another Python finds what this one can import, without this folder."""
    return {PYTHONPATH: os.pathsep.join(path_without(folder))}
