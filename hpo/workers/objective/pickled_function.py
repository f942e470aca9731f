"""Pickles a function of a script or notebook, because workers cannot import it. The bytes are in the study's folder.

A hash identifies the function. The hash covers the function and every object from the script or notebook that the
function uses. These are the *parts* of the function.
"""

import ast
import contextlib
import dis
import functools
import hashlib
import inspect
import io
import json
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

from hpo.errors import ConfigError, StudyError, is_interruption, text_of
from hpo.machine import PYTHON
from hpo.package import PACKAGE
from hpo.workers.objective.definitions import code_of, dumps, is_of_script, text_of_code, tree_of, wrapped
from hpo.workers.objective.given_data import GivenData
from hpo.workers.objective.path import GIVEN_DATA
from hpo.workers.objective.source_files import digest, without_docstrings


@dataclass(frozen=True)
class PickledFunction:
    """A pickled function, with the hash that identifies it."""

    name: str  # the function's name
    digest: str  # hash of the function's source, and of the objects that the function uses; see `digest_of`
    python: str  # the Python version as `major.minor`; other versions cannot load the function
    modules: Sequence[str]  # the modules of the working directory that the function uses
    data: bytes  # the bytes from cloudpickle; loading them runs code
    rows: GivenData | None = None  # the data of the search, if it was given from Python

    @classmethod
    def of(cls, function: Callable[..., Any], name: str) -> "PickledFunction":
        """Pickle a function. Raise ConfigError if it uses an object that cannot be sent to a worker."""
        parts = parts_of(function, name)
        if culprits := unsendable(parts):
            why = f"it uses {culprits}; create such objects inside the function"
            raise ConfigError(f"objective: '{name}' cannot be sent to workers: {why}")
        try:
            data = dumps(function)
        except Exception as error:  # A __reduce__ of any library may raise anything.
            raise ConfigError(f"objective: '{name}' cannot be sent to workers: {text_of(error)}") from error
        return cls(name, digest_of(parts), PYTHON, sorted(own_modules(parts)), data)

    @classmethod
    def read(cls, path: Path) -> "PickledFunction":
        """Read the file without unpickling the function. Raise StudyError if the file is missing or damaged."""
        try:
            line, _, data = path.read_bytes().partition(b"\n")
            head = json.loads(line)
            rows = None if head["rows"] is None else GivenData.read_head(head["rows"], path.parent / GIVEN_DATA)
            return cls(**{**head, "rows": rows}, data=data)
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise StudyError(
                f"objective: {path} cannot be read; restore the file, because it has the only copy of the study's "
                f"function, which was passed from Python"
            ) from error

    def to_bytes(self) -> bytes:
        """Return the bytes to write to the file, in the format that `read` reads."""
        head = {name: value for name, value in vars(self).items() if name != "data"}
        head["rows"] = None if self.rows is None else self.rows.head()
        return json.dumps(head).encode() + b"\n" + self.data

    def load(self) -> Callable[..., Any]:
        """Unpickle the function. Raise ConfigError if this fails, such as for the pickle of another Python version."""
        if self.python != PYTHON:
            raise ConfigError(
                f"objective: '{self.name}' was pickled by Python {self.python}, and Python {PYTHON} cannot load it; "
                f"run this command with Python {self.python}"
            )
        try:
            function: Callable[..., Any] = pickle.loads(self.data)  # noqa: S301 -- trusted before
        except BaseException as error:
            # Loading imports the user's modules, which may raise anything, or exit like a script.
            if is_interruption(error):
                raise
            raise ConfigError(
                f"objective: '{self.name}' cannot be loaded here: {type(error).__name__}: {text_of(error)}"
            ) from error
        assert callable(function)
        return function


_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_COLLECTIONS = (Mapping, list, tuple, set, frozenset)
_IMPORTS, _GLOBALS = ("IMPORT_NAME",), ("LOAD_GLOBAL", "LOAD_NAME")
# Descriptors of a class that wrap functions, and the attributes in which they hold these functions.
_HOLDERS = (property, staticmethod, classmethod, functools.cached_property, functools.partialmethod)
_HELD = ("fget", "fset", "fdel", "__func__", "func", "args", "keywords")
# Descriptors that Python itself adds to a class.
_PYTHON_DESCRIPTORS = (MemberDescriptorType, GetSetDescriptorType)

Parts = list[tuple[str, Any]]


def parts_of(function: Callable[..., Any], name: str) -> Parts:
    """Return the function and every object that it uses, each with a name.

    Search recursively, but not in modules that can be imported.
    """
    parts, seen = Parts(), dict[int, Any]()
    waiting: Parts = [(name, function)]
    while waiting:
        name, value = waiting.pop()
        parts.append((name, value))
        if type(value) in _SCALARS or id(value) in seen:
            continue
        seen[id(value)] = value
        inner = () if isinstance(value, _SCALARS) else _inner(name, value)
        waiting += [*inner, *_definitions_of(name, value)][::-1]
    return parts


def digest_of(parts: Parts) -> str:
    """Return a hash of the names, code and values of a function's parts, as `parts_of` returns them.

    Comments do not change the hash. Docstrings change it only if the source of the code cannot be read.
    """
    return digest("\n".join(f"{name} {_text(value)}" for name, value in parts))


def own_modules(parts: Parts) -> set[str]:
    """Return the names of the modules in the working directory that a function uses.

    A function uses these modules:

    - Modules that are parts of the function.
    - Modules that define a part of the function.
    - Modules that a part of the function imports.
    """
    named: set[str | None] = {value.__name__ if inspect.ismodule(value) else _module_of(value) for _, value in parts}
    for _, value in parts:
        for function in _functions(value):
            named |= _names(function.__code__, _IMPORTS)
    return {name for name in named if name is not None and _is_own(name)}


def unsendable(parts: Parts) -> str:
    """Return a text that names those parts of a function that cannot be sent to a worker, such as open files.

    The text is empty if all parts can be sent. `parts` has the function and the objects that it uses; see `parts_of`.
    """
    culprits = []
    for name, value in parts:
        is_made_of_parts = isinstance(value, (*_SCALARS, *_COLLECTIONS, *_HOLDERS)) or _has_parts(value)
        if is_made_of_parts or inspect.ismodule(value) or wrapped(value) is not None:
            continue
        try:
            dumps(value)
            is_bound = isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO)
        except Exception:  # noqa: BLE001 -- the __reduce__ of a library may raise anything
            is_bound = True
        if is_bound:
            culprits.append(f"`{name}`, a {type(value).__name__}")
    return " and ".join(culprits)


def _inner(name: str, value: Any) -> Parts:
    """Return the parts of a value: the objects that it directly contains, and the objects that its code uses."""
    if isinstance(value, functools.partial):
        return [(name, value.func), (f"{name}.args", value.args), (f"{name}.keywords", value.keywords)]
    if inspect.ismethod(value):
        return [(name, value.__func__), (f"{name}.__self__", value.__self__)]
    if isinstance(value, Mapping):
        return [(f"{name}[{key!r}]", value[key]) for key in sorted(value, key=str)]
    if isinstance(value, set | frozenset):
        return [(name, item) for item in sorted(value, key=repr)]
    if isinstance(value, list | tuple):
        return [(f"{name}[{place}]", item) for place, item in enumerate(value)]
    if not _has_parts(value):
        return []
    used = [part for function in _functions(value) for part in _used(function)]
    if inspect.isclass(value):
        return [*used, *((base.__name__, base) for base in value.__bases__)]
    if inspect.isfunction(value):
        return used
    return [(type(value).__name__, type(value)), *((f"{name}.{key}", inner) for key, inner in vars(value).items())]


def _definitions_of(name: str, value: Any) -> Parts:
    """Return the definitions on which a value depends, each with a name.

    - For a class: its attributes that the user defined, and its metaclass.
    - For a module that the program created: its attributes.
    - For a property or another descriptor that holds functions: the functions.
    - For a wrapper: the wrapped function, and the wrapper's own code.
    - For any other object: its class, and its slots if it has no `__dict__`.

    The classes and wrappers of libraries are left out.
    """
    if isinstance(value, _HOLDERS):
        functions = ((key, getattr(value, key, None)) for key in _HELD)
        return [(f"{name}.{key}", inner) for key, inner in functions if inner is not None]
    if inspect.ismodule(value):
        if sys.modules.get(value.__name__) is value:
            return []
        # The program created this module itself, so no worker can import it.
        return [(f"{name}.{key}", inner) for key, inner in sorted(vars(value).items()) if _counts(key, inner)]
    others: Parts = []
    if (inner := wrapped(value)) is not None:
        others.append((f"{name}.__wrapped__", inner))
    if inspect.isfunction(value):
        # `inspect` returns the source of the wrapped function only, so add the wrapper's own code as a part.
        return [*others, (f"{name}.__code__", value.__code__)] if others and not _is_of_library(value) else others
    if inspect.isclass(value):
        if not _has_parts(value):
            return []
        attributes = ((key, value.__dict__[key]) for key in sorted(vars(value)))
        others = [(f"{value.__name__}.{key}", inner) for key, inner in attributes if _counts(key, inner)]
        return others if type(value) is type else [*others, (type(value).__name__, type(value))]
    if not _has_parts(type(value)):
        return others
    # The class of a number, a tuple or an object with slots may also be defined in the script.
    if not hasattr(value, "__dict__"):
        others.append((f"{name}'s slots", object.__getstate__(value)))
    return [*others, (type(value).__name__, type(value))]


def _counts(key: str, value: Any) -> bool:
    """Return whether the user defined an attribute.

    Return False for a special name such as `__doc__`, unless the value is a callable or a property.
    """
    if isinstance(value, _PYTHON_DESCRIPTORS) or key == "_abc_impl":
        return False
    return not (key.startswith("__") and key.endswith("__")) or callable(value) or isinstance(value, _HOLDERS)


def _has_parts(value: Any) -> bool:
    """Return whether a value is of one of these kinds:

    - a partial or a bound method;
    - a function or class that is defined in the script or notebook;
    - an object of a class that is defined in the script or notebook, if the object has a `__dict__`.
    """
    if inspect.isfunction(value) or inspect.isclass(value):
        return is_of_script(value)
    if isinstance(value, functools.partial) or inspect.ismethod(value):
        return True
    return hasattr(value, "__dict__") and not isinstance(value, ModuleType) and _has_parts(type(value))


def _functions(value: Any) -> list[Any]:
    """Return `[value]` for a function, and the methods for a class.

    The result is empty for any other value, and for a value that is not defined in the script or notebook.
    """
    if not _has_parts(value):
        return []
    if inspect.isfunction(value):
        return [value]
    if not inspect.isclass(value):
        return []
    unwrapped = (getattr(each, "__func__", getattr(each, "fget", each)) for each in vars(value).values())
    return [function for function in unwrapped if inspect.isfunction(function)]


def _used(function: Any) -> Parts:
    """Return a function's defaults and attributes, and the globals and closure variables that the function uses."""
    code = function.__code__
    names = sorted(_names(code, _GLOBALS) & function.__globals__.keys())
    used = [(name, function.__globals__[name]) for name in names]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # The variable is not assigned yet.
            used.append((name, cell.cell_contents))
    defaults = (function.__defaults__ or (), function.__kwdefaults__ or {})
    return [*used, (f"{function.__name__}'s defaults", defaults), (function.__name__, vars(function))]


def _names(code: CodeType, operations: tuple[str, ...]) -> set[str]:
    """Return the names that a code object and its inner functions use in the bytecode instructions `operations`."""
    names = {str(step.argval) for step in dis.get_instructions(code) if step.opname in operations}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant, operations)
    return names


def _text(value: Any) -> str:
    """Return a text that identifies the code or value of one part of a function.

    The text of a collection leaves out the values in the collection, because each value is a separate part.
    """
    if isinstance(value, _SCALARS):
        return repr(value)
    if isinstance(value, Mapping):
        return f"{type(value).__name__} {sorted(map(str, value))}"
    if isinstance(value, _COLLECTIONS):
        return f"{type(value).__name__} {len(value)}"
    if inspect.ismodule(value):
        return value.__name__
    if isinstance(value, CodeType):
        return _source(value)
    if inspect.isfunction(value) or inspect.isclass(value):
        return _source(value) if _has_parts(value) else f"{value.__module__}.{value.__qualname__}"
    if _has_parts(value) or isinstance(value, _HOLDERS):
        return type(value).__name__
    import joblib

    try:
        # Unlike pickled bytes, this hash does not depend on the order of sets.
        return str(joblib.hash(value))
    except Exception:  # noqa: BLE001 -- the __reduce__ of a library may raise anything
        has_others = wrapped(value) is not None or _has_parts(type(value))
        return type(value).__name__ if has_others else hashlib.sha256(dumps(value)).hexdigest()


def _source(value: Any) -> str:
    """Return a definition's source without comments and docstrings; if there is no source, its compiled code."""
    tree = tree_of(value)
    if tree is None:
        code = code_of(value)
        return f"{getattr(value, '__qualname__', '')} {text_of_code(code) if code else ''}"
    return ast.unparse(without_docstrings(tree))


def _module_of(value: Any) -> str | None:
    value = inspect.unwrap(value) if wrapped(value) is not None else value
    owner = value if inspect.isfunction(value) or inspect.isclass(value) else type(value)
    return getattr(owner, "__module__", None)


def _is_of_library(function: Any) -> bool:
    """Return whether a function belongs to Python or an installed library, whose versions the study records."""
    top = function.__globals__.get("__name__", "").partition(".")[0]
    return top in sys.stdlib_module_names or "site-packages" in Path(function.__code__.co_filename).parts


def _is_own(name: str) -> bool:
    """Return whether a module is a file in the working directory that does not belong to an installed package."""
    if name == "__main__":
        return False
    here = Path.cwd()
    file = getattr(sys.modules.get(name), "__file__", None) or here / f"{name.replace('.', '/')}.py"
    place = Path(file).resolve()
    is_installed = "site-packages" in place.parts or PACKAGE in place.parents
    return place.is_file() and here in place.parents and not is_installed
