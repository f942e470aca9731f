"""Converts values from Python to JSON values; if a value has no JSON form, the error names its key."""

import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from hpo.errors import ConfigError

_ALLOWED = "numbers, strings, bools, None, dates, paths, enums, and lists, tuples, sets, dicts, dataclasses of these"
_AS_TEXT = (PurePath, decimal.Decimal, fractions.Fraction, uuid.UUID, complex, datetime.timedelta)
# The allowed types of a dict's keys; all keys become strings.
_KEYS = (str, int, float, bool, type(None), enum.Enum)
# The largest size of an array. People read configurations, so these should not contain large arrays.
_MAX_ARRAY_SIZE = 1000


def to_json(value: Any, where: str) -> tuple[Any, bool]:
    """Return two values: the JSON form of `value`, and whether a user's function can use the form in place of `value`.

    Raises:
        ConfigError: the value has no JSON form, or is a large array; the message names the value's key (`where`).
    """
    if value is None or type(value) in (bool, int, float, str):
        return value, True
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}", False
    if hasattr(value, "dtype") and hasattr(value, "tolist") and not isinstance(value, type):
        return _of_array(value, where)
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value), True
    if isinstance(value, Mapping):
        return _of_mapping(value, where)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return _of_mapping(fields, where)[0], False
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray | memoryview):
        parts = [to_json(part, f"{where}.{place}") for place, part in enumerate(value)]
        plain = [part for part, _ in parts]
        is_plain = all(is_plain for _, is_plain in parts) and not isinstance(value, tuple | range | set | frozenset)
        return sorted(plain, key=json_text) if isinstance(value, set | frozenset) else plain, is_plain
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat(), False
    library, kind_name = type(value).__module__.partition(".")[0], type(value).__name__.lower()
    if isinstance(value, _AS_TEXT) or (library in ("torch", "numpy") and kind_name.endswith(("dtype", "device"))):
        return str(value), False
    name = value.__name__ if hasattr(value, "__name__") else f"a {type(value).__name__}"
    hint = "; create the value in the objective, or name the value in the search space: hpo.choices(NAME=VALUE)"
    is_for_objective = where.startswith(("config", "space"))
    raise ConfigError(f"{where}: must be made of {_ALLOWED}, given {name}{hint if is_for_objective else ''}")


def _of_array(value: Any, where: str) -> tuple[Any, bool]:
    """Convert an array (NumPy, torch, ...) to nested lists, or a 0-d array to a scalar.

    Return the same two values as `to_json`.
    """
    if not getattr(value, "shape", ()):
        return to_json(value.item(), where)
    if (size := math.prod(value.shape)) > _MAX_ARRAY_SIZE:
        raise ConfigError(
            f"{where}: must have at most {_MAX_ARRAY_SIZE:,} values, given {size:,}; create the array in the objective"
        )
    return to_json(value.tolist(), where)[0], False


def _of_mapping(value: Mapping[Any, Any], where: str) -> tuple[dict[str, Any], bool]:
    parts = {}
    for key, part in value.items():
        name = key if isinstance(key, str) else str(key)
        if not isinstance(key, _KEYS) or name in parts:
            reason = "two keys become the same string" if name in parts else f"a key is a {type(key).__name__}"
            raise ConfigError(f"{where}: cannot be written as JSON: {reason}, given {key!r}; use other keys")
        parts[name] = to_json(part, f"{where}.{name}")
    is_plain = all(isinstance(key, str) for key in value) and all(is_plain for _, is_plain in parts.values())
    return {name: part for name, (part, _) in parts.items()}, is_plain


def json_text(value: Any) -> str:
    """Return a value as JSON text with sorted keys, so that equal values have equal texts."""
    return json.dumps(value, sort_keys=True)
