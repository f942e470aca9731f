"""A list or a mapping as one value of a hyperparameter: layers of `[64, 32]`, an optimizer of `{name: adam}`."""

import json
from collections.abc import Mapping
from typing import Any

# Created once: `json.dumps` would create an encoder for every point.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def canonical_text(value: Any) -> str:
    """Return canonical JSON (sorted names, no blanks), which is the identity of points and of structured values."""
    return _CANONICAL.encode(value)


class _OneValue:
    """Compares by canonical JSON, so that it can be looked up as numbers and texts can; `str` gives that text."""

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | tuple | dict) and canonical_text(self) == canonical_text(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __str__(self) -> str:
        return canonical_text(self)


class ListValue(_OneValue, list[Any]):  # type: ignore[misc]  # Two ways to compare; the first is meant.
    """A list that is one value; never changed in place."""


class DictValue(_OneValue, dict[str, Any]):  # type: ignore[misc]  # As above.
    """A mapping that is one value; never changed in place."""


def as_value(value: Any) -> Any:
    """Return a list or mapping as one value, and all else as it is."""
    if isinstance(value, Mapping):
        return DictValue(value)
    return ListValue(value) if isinstance(value, list | tuple) else value


def as_values(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point that was kept as JSON."""
    return {key: as_value(value) for key, value in point.items()}
