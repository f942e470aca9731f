"""Writes what belongs to a script or notebook by its value, where no worker could import it."""

import functools
import inspect
import io
import sys
from collections.abc import Callable, Mapping
from typing import Any

# functools has no public name for it.
CACHED: Any = type(functools.lru_cache(len))


def is_of_script(value: Any) -> bool:
    """Return whether a function or class was defined in a script or notebook, inside a function, or by `exec`."""
    is_importable = value.__module__ not in (None, "__main__") and value.__module__ in sys.modules
    # A class that `exec` has made without a module says so.
    return not is_importable or "<" in value.__qualname__ or vars(value).get("__module__") == "builtins"


def wrapped(value: Any) -> Any:
    """Return what a wrapper such as `functools.lru_cache` has wrapped; None for what wraps nothing."""
    # Statically: some objects answer to any name.
    return inspect.getattr_static(value, "__wrapped__", None) if callable(value) else None


def dumps(value: Any) -> bytes:
    """Return the bytes from which pickle makes the value again in another process."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types.
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, CACHED) and is_of_script(obj):
                return cached, (wrapped(obj), obj.cache_parameters()), vars(obj)
            if isinstance(obj, functools.cached_property):
                # Python 3.11 gives it a lock, which has no value.
                return functools.cached_property, (obj.func,), {k: v for k, v in vars(obj).items() if k != "lock"}
            return super().reducer_override(obj)

    with io.BytesIO() as file:
        Pickler(file).dump(value)
        return file.getvalue()


def cached(function: Callable[..., Any], parameters: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function under `functools.lru_cache`; kept functions name this one, so it stays where it is."""
    made: Callable[..., Any] = functools.lru_cache(**parameters)(function)
    return made
