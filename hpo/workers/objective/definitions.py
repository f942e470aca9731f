"""Reads the syntax trees and the compiled code of functions and classes in a script or notebook, and pickles values."""

import ast
import functools
import inspect
import io
import sys
import textwrap
from collections.abc import Callable, Hashable, Mapping
from types import CodeType
from typing import Any

# The attributes of a code object that affect what it does. Its other attributes only say where it is defined.
_ATTRIBUTES = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_names", "co_varnames"),
    *("co_freevars", "co_cellvars", "co_exceptiontable"),
)

# The type of cached functions. functools has no public name for it.
_CACHED: Any = type(functools.lru_cache(len))


def tree_of(value: Any) -> ast.Module | None:
    """Return the syntax tree of a function, class or code object; None = a lambda, or the source cannot be read."""
    if getattr(code_of(value), "co_name", None) == "<lambda>":
        # The source lines of a lambda also contain the rest of its statement.
        return None
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        return None


def code_of(value: Any) -> CodeType | None:
    """Return the code object of a function; return a code object unchanged, and None for any other value."""
    return value if isinstance(value, CodeType) else getattr(value, "__code__", None)


def text_of_code(code: CodeType) -> str:
    """Return a text that identifies compiled code. It is the same in every process with the same Python version.

    The text includes docstrings, because compiled code does not distinguish them from other constants.
    """
    about = [repr(getattr(code, name)) for name in _ATTRIBUTES]
    return " ".join((code.co_name, code.co_code.hex(), *about, _text(code.co_consts)))


def _text(constant: Hashable) -> str:
    if isinstance(constant, CodeType):
        return f"({text_of_code(constant)})"
    if isinstance(constant, tuple):
        return f"({', '.join(map(_text, constant))})"
    if isinstance(constant, frozenset):
        # The order of a set depends on the process.
        return f"{{{', '.join(sorted(map(_text, constant)))}}}"
    return repr(constant)


def is_of_script(value: Any) -> bool:
    """Return whether a function or class cannot be imported.

    This is true for a lambda, and for a definition in a script, in a notebook, in a function or in code run by `exec`.
    """
    is_importable = value.__module__ not in (None, "__main__") and value.__module__ in sys.modules
    # If code is run by `exec` without a module name, its classes have `builtins` as their module.
    return not is_importable or "<" in value.__qualname__ or vars(value).get("__module__") == "builtins"


def wrapped(value: Any) -> Any:
    """Return the function inside a wrapper such as `functools.lru_cache`; None for any other value."""
    # Look it up statically, because some objects return an attribute for any name.
    return inspect.getattr_static(value, "__wrapped__", None) if callable(value) else None


def dumps(value: Any) -> bytes:
    """Pickle a value, so that another process can load it."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types.
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, _CACHED) and is_of_script(obj):
                return cached, (wrapped(obj), obj.cache_parameters()), vars(obj)
            if isinstance(obj, functools.cached_property):
                # In Python 3.11 a `cached_property` has a lock, which cannot be pickled.
                return functools.cached_property, (obj.func,), {k: v for k, v in vars(obj).items() if k != "lock"}
            return super().reducer_override(obj)

    with io.BytesIO() as file:
        Pickler(file).dump(value)
        return file.getvalue()


def cached(function: Callable[..., Any], parameters: Mapping[str, Any]) -> Callable[..., Any]:
    """Wrap a function in `functools.lru_cache`. Pickled functions refer to `cached` by name, so do not rename it."""
    made: Callable[..., Any] = functools.lru_cache(**parameters)(function)
    return made
