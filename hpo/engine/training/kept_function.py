"""A function of a script or notebook, which no worker can import: kept as bytes in its study's folder."""

import ast
import contextlib
import functools
import hashlib
import inspect
import json
import platform
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from hpo.errors import ConfigError, StudyError, is_interruption, text_of

MODULE = "objective.pkl"
"""The file in the study's folder, and what stands for a module in the path of such an objective."""

_SCALARS = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True)
class KeptFunction:
    """A function by its value, and what identifies it.

    Attributes:
        name: the function's.
        digest: a hash of its source, and of the functions and constants of the same script or notebook that it uses.
        python: `major.minor`; another version cannot read its bytecode.
        data: written by cloudpickle; reading it runs code.
    """

    name: str
    digest: str
    python: str
    data: bytes

    @classmethod
    def of(cls, function: Callable[..., Any], name: str) -> "KeptFunction":
        """Return the function by its value; ConfigError where it holds what cannot be sent to a worker."""
        import cloudpickle

        try:
            data = cloudpickle.dumps(function)
        except Exception as error:
            raise ConfigError(
                f"objective: '{name}' cannot be sent to workers: {text_of(error)}; it uses {_culprit(function)}: make "
                f"that inside the function"
            ) from error
        return cls(name, _digest(function), _python(), data)

    @classmethod
    def read(cls, path: Path) -> "KeptFunction":
        """Read the file, without running any of it; StudyError where it is missing or damaged."""
        try:
            head, _, data = path.read_bytes().partition(b"\n")
            return cls(**json.loads(head), data=data)
        except (OSError, ValueError, TypeError) as error:
            raise StudyError(
                f"objective: {path} cannot be read, and holds the study's function, which was given from Python and "
                f"lies nowhere else; restore the file"
            ) from error

    def to_bytes(self) -> bytes:
        """Return what `read` reads."""
        return (
            json.dumps({"name": self.name, "digest": self.digest, "python": self.python}).encode() + b"\n" + self.data
        )

    def load(self) -> Callable[..., Any]:
        """Return the function; ConfigError where this Python cannot read it."""
        import pickle

        if self.python != _python():
            raise ConfigError(
                f"objective: '{self.name}' was given from Python {self.python} and can be read by that alone, this is "
                f"{_python()}"
            )
        try:
            function: Callable[..., Any] = pickle.loads(self.data)  # noqa: S301 -- made here, or trusted: see `ask_for_trust`
        except BaseException as error:
            if is_interruption(error):
                raise
            raise ConfigError(
                f"objective: '{self.name}' cannot be read here: {type(error).__name__}: {text_of(error)}"
            ) from error
        assert callable(function)
        return function


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _digest(function: Callable[..., Any]) -> str:
    """Return a hash of what the function does, as far as it is written where the function is."""
    text = "\n".join(_parts(function, set()))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def _parts(value: Any, seen: set[int]) -> Iterator[str]:
    """Yield the sources of functions and classes of a script or notebook, and the values that they use, recursively."""
    if isinstance(value, _SCALARS):
        yield repr(value)
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, functools.partial):
        yield from _parts([value.func, value.args, value.keywords], seen)
    elif isinstance(value, Mapping):
        yield from _parts(sorted(value.items(), key=lambda item: str(item[0])), seen)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _parts(item, seen)
    elif inspect.ismodule(value) or _is_importable(value):
        return
    elif inspect.isfunction(value):
        yield _source(value)
        yield from _parts(_used(value), seen)
    elif inspect.isclass(value):
        yield _source(value)
    elif not _is_importable(type(value)):
        yield from _parts([type(value), vars(value)], seen)


def _is_importable(value: Any) -> bool:
    """Return whether a function, class or object is that of a module, by its name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    return module not in (None, "__main__") and "<" not in name


def _source(value: Any) -> str:
    """Return the text of a definition without comments and docstrings; of a function without source its bytecode."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        code = getattr(value, "__code__", None)
        return f"{value.__qualname__} {code.co_code.hex() if code else ''}"
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _used(function: Any) -> list[tuple[str, Any]]:
    """Return the globals, the closure and the defaults of a function, by name."""
    code, names = function.__code__, _names(function.__code__)
    used = [(name, function.__globals__[name]) for name in sorted(names) if name in function.__globals__]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # Not assigned yet.
            used.append((name, cell.cell_contents))
    return [*used, ("defaults", (function.__defaults__, function.__kwdefaults__)), ("attributes", vars(function))]


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _culprit(function: Callable[..., Any]) -> str:
    """Return the names of what the function uses that cannot be sent."""
    import cloudpickle

    names = []
    for name, value in _used(function) if inspect.isfunction(function) else vars(function).items():
        try:
            cloudpickle.dumps(value)
        except Exception:  # noqa: BLE001 -- a __reduce__ of any library may raise anything
            names.append(f"'{name}', a {type(value).__name__}")
    return " and ".join(names) or "something that only this process has"
